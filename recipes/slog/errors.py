"""Count the errors in the forms that a model has generated, by category and kind.

    cd recipes/slog/work && python ../errors.py runs/walk.demo.seed*/gen.hyp --raw raw

The kind of a wrong form is the first of these that applies:

length: the generated or the correct form is a prefix of the other, or brackets are unbalanced.
word: the forms are equal if all names are replaced by blanks.
structure: any other error.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines, same_number_of_lines

KINDS = ("right", "structure", "word", "length")


def kind_of(found: Sequence[str], right: Sequence[str]) -> str:
    """Return the kind of error in a generated form, or `right`."""
    if found == right:
        return "right"
    shorter = min(len(found), len(right))
    if found[:shorter] == right[:shorter] or found.count("(") != found.count(")"):
        return "length"
    return "word" if blanked(found) == blanked(right) else "structure"


def blanked(form: Sequence[str]) -> list[str]:
    """Replace each name by a blank, and remove `*`, which marks definite nouns."""
    words = ["=", *(word for word in form if word != "*")]
    return ["_" if before == "=" else word for before, word in pairwise(words)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forms", nargs="+", type=Path, help="generated forms (gen.hyp) of the runs")
    parser.add_argument("--raw", required=True, type=Path, help="folder with the extracted texts")
    args = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    texts = [str(args.raw / f"gen.{kind}") for kind in ("lf", "category")]
    for path in args.forms:
        same_number_of_lines([*texts, str(path)])
        for right, category, found in zip(*map(read_lines, [*texts, str(path)]), strict=True):
            kind = kind_of(found.split(), right.split())
            counts.setdefault(category, Counter())[kind] += 1
    print(f"{'':18}" + "".join(f"{kind:>11}" for kind in KINDS))
    for category, of_kind in sorted(counts.items()):
        shares = (100 * of_kind[kind] / of_kind.total() for kind in KINDS)
        print(f"{category:18}" + "".join(f"{share:11.1f}" for share in shares))


if __name__ == "__main__":
    command_line.run(main)
