"""Average the parameters of several checkpoints of one training run (Vaswani et al. 2017).

    posattn average RUN --last 5 --out RUN/averaged.pt

The newest checkpoints in RUN are selected by their number of updates (checkpoint_1_1500.pt) or, if
no file name contains one, by their epoch (checkpoint3.pt).
"""

from functools import partial

from fairseq_posattn.io.argument_types import command_parser, positive
from fairseq_posattn.io.command_line import run


def main() -> None:
    parser = command_parser("posattn average", __doc__)
    parser.add_argument("run", help="folder with the checkpoints (--save-dir of the training run)")
    parser.add_argument(
        "--last",
        type=positive,
        default=5,
        help="number of most recent checkpoints to average (default: %(default)s)",
    )
    parser.add_argument("--out", required=True, help="write the averaged checkpoint to this file")
    options = parser.parse_args()
    from fairseq_posattn.glue.averaging import write_average  # torch would delay --help

    paths = write_average(options.run, options.last, options.out)
    print(f"{options.out} is the mean of {', '.join(path.name for path in paths)}")


command = partial(run, main)
if __name__ == "__main__":
    command()
