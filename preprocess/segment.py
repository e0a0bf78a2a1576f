#!/usr/bin/env python3
"""Words -> pieces with byte-pair encoding (subword-nmt): learn the merges, then apply them.

python preprocess/segment.py learn work/train.words work/train.de.words --codes work/codes
python preprocess/segment.py apply work/train.words --codes work/codes --out work/train.en
"""

import argparse

from fairseq_posattn import command_line
from fairseq_posattn.preparation.segment import Segmentation, apply, learn
from fairseq_posattn.trees.projection import SEPARATOR


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    _add_learn(
        steps.add_parser("learn", help="learn the merges from one text, or from several together")
    )
    _add_apply(steps.add_parser("apply", help="split the words of a text"))
    return parser.parse_args()


def _add_learn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", help="words, one sentence a line")
    parser.add_argument("--codes", required=True, help="where to write the merges")
    parser.add_argument(
        "--symbols", type=int, default=32000, help="how many merges (default: %(default)s)"
    )
    parser.add_argument(
        "--min-frequency",
        type=int,
        default=2,
        help="merge only pairs that occur as often (default: %(default)s)",
    )
    parser.set_defaults(
        step=lambda options: learn(
            options.texts, options.codes, options.symbols, options.min_frequency
        )
    )


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="words, one sentence a line")
    parser.add_argument("--codes", required=True, help="the merges that were learnt")
    parser.add_argument("--out", required=True, help="where to write the pieces")
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="ends a piece that its word goes on after (default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary",
        help="split further until all pieces are in this list (from subword-nmt get-vocab)",
    )
    parser.add_argument(
        "--vocabulary-threshold", type=int, help="and occur there at least as often"
    )
    parser.set_defaults(step=_apply)


def _apply(options: argparse.Namespace) -> None:
    segmentation = Segmentation(
        options.codes, options.separator, options.vocabulary, options.vocabulary_threshold
    )
    apply(segmentation, options.text, options.out)


def main() -> None:
    options = parse_options()
    options.step(options)


if __name__ == "__main__":
    command_line.run(main)
