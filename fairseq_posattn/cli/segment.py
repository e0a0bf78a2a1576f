"""Learn subword units ("pieces") from text, and split text into them.

With byte-pair encoding of tokenised text (subword-nmt):

    posattn segment learn work/train.words work/train.de.words --codes work/codes
    posattn segment apply work/train.words --codes work/codes --out work/train.en

With sentencepiece, on text that need not be tokenised:

    posattn segment learn train.en train.de --sentencepiece work/model
    posattn segment apply train.en --sentencepiece work/model --out work/train.en
"""

import argparse
from functools import partial

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, positive, share
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
    parser = command_parser("posattn segment", __doc__)
    steps = parser.add_subparsers(required=True)
    _add_learn(steps.add_parser("learn", help="learn subword units from one or more texts"))
    _add_apply(steps.add_parser("apply", help="split the lines of a text into pieces"))
    return parser.parse_args()


def _add_learn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", help="files to learn from, one sentence per line")
    _add_segmenter(parser, "write")
    parser.add_argument(
        "--symbols",
        type=positive,
        default=32000,
        help="number of merges (subword-nmt) or pieces (sentencepiece) to learn (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--min-frequency",
        type=positive,
        default=2,
        help="with --codes: merge only pairs that occur at least this often (default: %(default)s)",
    )
    parser.add_argument(
        "--model-type",
        choices=SENTENCEPIECE_MODELS,
        default="unigram",
        help="with --sentencepiece: type of the model (default: %(default)s)",
    )
    parser.add_argument(
        "--character-coverage",
        type=share,
        default=0.9995,
        help="with --sentencepiece: share of characters that the model covers (default: "
        "%(default)s; choose 1.0 for small alphabets)",
    )
    parser.set_defaults(step=_learn)


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="file to split, one sentence per line")
    _add_segmenter(parser, "read")
    parser.add_argument("--out", required=True, help="write the pieces to this file")
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="with --codes: append this marker to each piece except the last piece of a word "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="with --codes: split pieces that are not in this vocabulary (written by subword-nmt "
        "get-vocab) into smaller ones",
    )
    parser.add_argument(
        "--vocabulary-threshold",
        type=positive,
        help="with --vocabulary: treat pieces that are less frequent than this as missing",
    )
    parser.set_defaults(step=_apply)


def _add_segmenter(parser: argparse.ArgumentParser, verb: str) -> None:
    either = parser.add_mutually_exclusive_group(required=True)
    place = "from" if verb == "read" else "to"
    either.add_argument(
        "--codes", metavar="FILE", help=f"{verb} the merges of subword-nmt {place} this file"
    )
    either.add_argument(
        "--sentencepiece", metavar="FILE", help=f"{verb} a sentencepiece model {place} this file"
    )


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
        raise InputError(
            "--vocabulary cannot be combined with --sentencepiece, because a sentencepiece model "
            "has its own vocabulary; omit --vocabulary"
        )
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


command = partial(run, main)
if __name__ == "__main__":
    command()
