"""Measure whether target sentences follow the edges of source trees, or source word order.

    cd recipes/atis_en_tr/walk/work/data.work
    python ../../../../tree_steps.py train.conllu.xz train.eflomal.align

A step leads from the source word of one target word to that of the next aligned target word. The
program prints the share of steps that stay at a word, or lead to its parent or child (`tree`) or to
an adjacent word (`chain`). If many more steps follow the tree, `tree_walk` may gain from trees.
With --target, steps may also start at the word aligned before the innermost open target bracket.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from fairseq_posattn.core.attention.brackets import CLOSING, OPENING
from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.projection import checked_parents


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", help="CoNLL-U file with the source trees")
    parser.add_argument("alignments", help="word alignments: lines such as 0-0 2-1, source first")
    parser.add_argument("--target", help="tokenised target text with brackets")
    args = parser.parse_args()
    targets = read_lines(args.target or args.alignments)
    files = (read_labelled(args.trees), read_lines(args.alignments), targets)
    total = tree = chain = both = 0
    for number, (sentence, line, target) in enumerate(zip_longest(*files), start=1):
        if None in (sentence, line, target):
            raise InputError(
                f"{args.trees} and {args.target or args.alignments} differ in their number of "
                "sentences; give files of the same sentences"
            )
        parents = checked_parents(sentence, sentence.where)
        up = {(word, parent - 1) for word, parent in enumerate(parents)}
        links = source_words(line, len(parents), f"{args.alignments}:{number}")
        for starts, end in steps(links, target.split() if args.target else []):
            on_tree = any(k == end or (k, end) in up or (end, k) in up for k in starts)
            on_chain = any(abs(k - end) <= 1 for k in starts)
            total, tree, chain = total + 1, tree + on_tree, chain + on_chain
            both += on_tree and on_chain
    if not total:
        raise InputError(f"{args.alignments}: no sentence has two aligned target words; align more")
    shares = [100 * count / total for count in (tree, chain, tree - both, chain - both)]
    print(("{:>9}" + 4 * "{:>12}").format("steps", "tree", "chain", "only tree", "only chain"))
    print(("{:9,}" + 4 * "{:12.1f}").format(total, *shares))


def source_words(line: str, words: int, where: str) -> dict[int, int]:
    """Return the first source word that each target word is aligned with."""
    found: dict[int, int] = {}
    for pair in line.split():
        if not re.fullmatch(r"\d+-\d+", pair) or int(pair.split("-")[0]) >= words:
            raise InputError(
                f"{where}: '{pair}' is not an alignment of one of the {words} source words, such "
                "as 0-0; give the word alignments of these trees"
            )
        source, target = map(int, pair.split("-"))
        found[target] = min(source, found.get(target, source))
    return found


def steps(links: Mapping[int, int], target: Sequence[str]) -> Iterator[tuple[set[int], int]]:
    """Yield, for each step, the source words where it may start, and the word where it ends."""
    last: set[int] = set()
    opened: list[set[int]] = []
    for place in range(max([*links, len(target) - 1], default=-1) + 1):
        if place in links:
            if last:
                yield last.union(*opened[-1:]), links[place]
            last = {links[place]}
        word = target[place] if place < len(target) else ""
        if word == OPENING:
            opened.append(last)
        elif word == CLOSING and opened:
            opened.pop()


if __name__ == "__main__":
    command_line.run(main)
