"""Compare a parser's trees with the gold ones, by category.

    cd recipes/slog/work
    python ../attachments.py raw/gen.conllu data.parsed.work/test1.conllu.xz \\
        --labels raw/gen.category

UAS is the share of words with the right parent, LAS of those whose relation is right, too;
punctuation counts. `whole` is the share of sentences in which all words have the right parent.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import zip_longest

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.sentence import Sentence

ALL = "all"


def counts_of(gold: Sentence, found: Sentence) -> Counter[str]:
    """Return how many words of a sentence have the right parent, and the right relation."""
    if gold.words != found.words or not gold.parents or not found.parents:
        raise InputError(f"{found.where}: these are not the words of {gold.where}, or have no tree")
    edges = [zip(one.parents, one.relations, strict=True) for one in (gold, found)]
    pairs = list(zip(*edges, strict=True))
    uas, las = sum(a[0] == b[0] for a, b in pairs), sum(a == b for a, b in pairs)
    return Counter(sentences=1, words=len(pairs), uas=uas, las=las, whole=uas == len(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gold", help="read the right trees from this CoNLL-U file")
    parser.add_argument("found", help="read the parser's from this one")
    parser.add_argument("--labels", required=True, help="read the category of each sentence here")
    args = parser.parse_args()
    files = (read_labelled(args.gold), read_labelled(args.found), read_lines(args.labels))
    sums: dict[str, Counter[str]] = {}
    for gold, found, label in zip_longest(*files):
        if None in (gold, found, label):
            raise InputError(f"{args.found}: not as many sentences as {args.gold} and its labels")
        for name in (label, ALL):
            sums.setdefault(name, Counter()).update(counts_of(gold, found))
    print(f"{'':18}{'sentences':>11}{'UAS':>8}{'LAS':>8}{'whole':>8}")
    for name, of_label in sorted(sums.items(), key=lambda item: (item[0] == ALL, item[0])):
        shares = [of_label[kind] / of_label["words"] for kind in ("uas", "las")]
        shares.append(of_label["whole"] / of_label["sentences"])
        row = "".join(f"{100 * share:8.1f}" for share in shares)
        print(f"{name:18}{of_label['sentences']:11,}{row}")


if __name__ == "__main__":
    command_line.run(main)
