"""Lines -> pieces: learn how to split them, then split them.

With byte-pair encoding of words (subword-nmt):

posattn-segment learn work/train.words work/train.de.words --codes work/codes
posattn-segment apply work/train.words --codes work/codes --out work/train.en

or with sentencepiece, on text that need not be tokenised:

posattn-segment learn train.en train.de --sentencepiece work/model
posattn-segment apply train.en --sentencepiece work/model --out work/train.en
"""

import argparse

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.segment import (
    SENTENCEPIECE_MODELS,
    apply,
    learn,
    learn_sentencepiece,
)
from fairseq_posattn.text.segmenters import Segmentation, Segmenter, SentencePiece, SubwordNmt
from fairseq_posattn.trees.projection import SEPARATOR


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-segment", __doc__)
    steps = parser.add_subparsers(required=True)
    _add_learn(
        steps.add_parser("learn", help="learn the merges from one text, or from several together")
    )
    _add_apply(steps.add_parser("apply", help="split the words of a text"))
    return parser.parse_args()


def _add_learn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", help="one sentence a line")
    _add_segmenter(parser, "where to write")
    parser.add_argument(
        "--symbols",
        type=int,
        default=32000,
        help="how many merges, or pieces of sentencepiece (default: %(default)s)",
    )
    parser.add_argument(
        "--min-frequency",
        type=int,
        default=2,
        help="merge only pairs that occur as often (default: %(default)s)",
    )
    parser.add_argument(
        "--model-type",
        choices=SENTENCEPIECE_MODELS,
        default="unigram",
        help="of sentencepiece (default: %(default)s)",
    )
    parser.add_argument(
        "--character-coverage",
        type=float,
        default=0.9995,
        help="of sentencepiece (default: %(default)s; 1.0 for small alphabets)",
    )
    parser.set_defaults(step=_learn)


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="one sentence a line")
    _add_segmenter(parser, "what was learnt:")
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


def _add_segmenter(parser: argparse.ArgumentParser, what: str) -> None:
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--codes", help=f"{what} the merges of subword-nmt")
    either.add_argument("--sentencepiece", metavar="MODEL", help=f"{what} a sentencepiece model")


def _learn(options: argparse.Namespace) -> None:
    if options.codes:
        learn(options.texts, options.codes, options.symbols, options.min_frequency)
    else:
        learn_sentencepiece(
            options.texts,
            options.sentencepiece,
            options.symbols,
            options.model_type,
            options.character_coverage,
        )


def _apply(options: argparse.Namespace) -> None:
    if options.sentencepiece and options.vocabulary:
        raise InputError("--vocabulary belongs to --codes; sentencepiece has its own")
    if options.sentencepiece:
        segmenter: Segmenter = SentencePiece(options.sentencepiece)
    else:
        segmentation = Segmentation(
            options.codes, options.separator, options.vocabulary, options.vocabulary_threshold
        )
        segmenter = SubwordNmt(segmentation)
    apply(segmenter, options.text, options.out)


def main() -> None:
    options = parse_options()
    options.step(options)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
