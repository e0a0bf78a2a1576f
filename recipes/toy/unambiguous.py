"""Extract the unambiguous sentences of PREFIX.src, .src.trees and .tgt to unambiguous.*.

python recipes/toy/unambiguous.py work/test raw/test.kinds
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import written_together
from fairseq_posattn.files.files import read_lines, same_number_of_lines

ENDS = ("src", "src.trees", "tgt")


def choose(prefix: Path, kinds: Path) -> None:
    """Write the unambiguous lines to files in the folder of the prefix."""
    files = [f"{prefix}.{end}" for end in ENDS]
    same_number_of_lines([*files, str(kinds)])
    with written_together([str(prefix.with_name(f"unambiguous.{end}")) for end in ENDS]) as out:
        for kind, *lines in zip(*map(read_lines, [kinds, *files]), strict=True):
            if kind == "unambiguous":
                for file, line in zip(out, lines, strict=True):
                    file.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", type=Path, help="prefix of the test set's files")
    parser.add_argument("kinds", type=Path, help="file with the kind of each sentence")
    args = parser.parse_args()
    choose(args.prefix, args.kinds)


if __name__ == "__main__":
    command_line.run(main)
