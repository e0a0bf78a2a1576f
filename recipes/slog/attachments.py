"""Compare the trees of a parser with the gold trees, by category.

    cd recipes/slog/work
    python ../attachments.py raw/gen.conllu data.parsed.work/test1.conllu.xz \\
        --labels raw/gen.category

UAS and LAS are computed by the scorer of CoNLL 2018, like those of posattn train-parser. `whole` is
the share of sentences in which all words have the correct parent.
"""

from __future__ import annotations

import argparse
from itertools import zip_longest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.text.parsing.training import chosen
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.sentence import Sentence

ALL = "all"
NAMES = {"UAS": "UAS", "LAS": "LAS"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gold", help="CoNLL-U file with the gold trees")
    parser.add_argument("found", help="CoNLL-U file with the trees of the parser")
    parser.add_argument("--labels", required=True, help="file with the category of each sentence")
    args = parser.parse_args()
    files = (read_labelled(args.gold), read_labelled(args.found), read_lines(args.labels))
    pairs: dict[str, list[tuple[Sentence, Sentence]]] = {}
    for gold, found, label in zip_longest(*files):
        if None in (gold, found, label):
            raise InputError(
                f"{args.found}, {args.gold} and {args.labels} differ in their number of sentences; "
                "give files of the same sentences"
            )
        if gold.words != found.words:
            raise InputError(
                f"{found.where}: the words differ from {gold.where}; give files of the same text"
            )
        for name in (label, ALL):
            pairs.setdefault(name, []).append((gold, found))
    print(f"{'':18}{'sentences':>11}{'UAS':>8}{'LAS':>8}{'whole':>8}")
    for name, of_label in sorted(pairs.items(), key=lambda item: (item[0] == ALL, item[0])):
        scores = chosen(NAMES, *zip(*of_label, strict=True))
        whole = sum(list(a.parents) == list(b.parents) for a, b in of_label) / len(of_label)
        shares = (*scores.values(), 100 * whole)
        print(f"{name:18}{len(of_label):11,}" + "".join(f"{share:8.1f}" for share in shares))


if __name__ == "__main__":
    command_line.run(main)
