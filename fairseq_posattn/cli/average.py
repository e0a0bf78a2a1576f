"""Average the parameters of several checkpoints of one training run (Vaswani et al. 2017).

    posattn average RUN --last 5 --out RUN/averaged.pt

The newest checkpoints in RUN are selected by their number of updates (checkpoint_1_1500.pt) or, if
no file name contains one, by their epoch (checkpoint3.pt).
"""

from fairseq_posattn.fairseq_plugin.requests import AverageRequest
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked


def main() -> None:
    request = asked(AverageRequest, __doc__)
    from fairseq_posattn.fairseq_plugin.averaging import write_average  # torch would delay --help

    paths = write_average(request)
    print(f"{request.out} is the mean of {', '.join(path.name for path in paths)}")


if __name__ == "__main__":
    run(main)
