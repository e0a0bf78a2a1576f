"""Extract the segments of a test set in NIST's format (SGML or XML) as plain text.

posattn sgm FILE --out TEXT
"""

from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.scoring.metrics.sgm import SgmRequest, read_set, read_sets


def main() -> None:
    request = asked(SgmRequest, __doc__)
    file, like = request.file, request.like
    found = read_sets(file)[0] if request.first else read_set(file, request.set)
    lines = found.in_order_of(read_set(like)) if like else found.texts.values()
    with written_whole(request.out) as out:
        out.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    run(main)
