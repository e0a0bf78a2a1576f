"""Extract the segments of a test set in NIST's format (SGML or XML) as plain text.

posattn sgm FILE --out TEXT
"""

from __future__ import annotations

from functools import partial

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.command_line import run
from fairseq_posattn.lab.scoring.metrics.sgm import read_set, read_sets


def main() -> None:
    parser = command_parser("posattn sgm", __doc__)
    parser.add_argument("file", help="file with sources, references or translations (.sgm or .xml)")
    parser.add_argument("--out", required=True, help="write one segment per line to this file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--set", metavar="ID", help="select one of several sets by its sysid")
    which.add_argument("--first", action="store_true", help="select the first of several sets")
    parser.add_argument(
        "--like", metavar="SOURCE", help="write the segments in the same order as this file"
    )
    args = parser.parse_args()
    found = read_sets(args.file)[0] if args.first else read_set(args.file, args.set)
    lines = found.in_order_of(read_set(args.like)) if args.like else found.texts.values()
    with written_whole(args.out) as file:
        file.writelines(f"{line}\n" for line in lines)


command = partial(run, main)
if __name__ == "__main__":
    command()
