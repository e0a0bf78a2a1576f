"""Split lines into pieces: learn from a text how to split it, then split texts.

With byte-pair encoding of words (subword-nmt):

    posattn segment learn work/train.words work/train.de.words --codes work/codes
    posattn segment apply work/train.words --codes work/codes --out work/train.en

or with sentencepiece, on text that need not be tokenised:

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
    """Read the options of the command line."""
    parser = command_parser("posattn segment", __doc__)
    steps = parser.add_subparsers(required=True)
    _add_learn(
        steps.add_parser("learn", help="learn a segmenter from one text, or from several together")
    )
    _add_apply(steps.add_parser("apply", help="split the lines of a text into pieces"))
    return parser.parse_args()


def _add_learn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", help="learn from these files, a sentence in each line")
    _add_segmenter(parser, "write")
    parser.add_argument(
        "--symbols",
        type=positive,
        default=32000,
        help="learn this many merges of subword-nmt, or pieces of sentencepiece (default: "
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
        help="with --sentencepiece: learn a model of this type (default: %(default)s)",
    )
    parser.add_argument(
        "--character-coverage",
        type=share,
        default=0.9995,
        help="with --sentencepiece: cover this share of all characters (default: %(default)s; "
        "1.0 suits small alphabets)",
    )
    parser.set_defaults(step=_learn)


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="split this file, with a sentence in each line")
    _add_segmenter(parser, "read")
    parser.add_argument("--out", required=True, help="write the pieces to this file")
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="with --codes: this marks the end of a piece that is joined to the next (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="with --codes: split pieces further until this file has them; subword-nmt get-vocab "
        "writes it",
    )
    parser.add_argument(
        "--vocabulary-threshold",
        type=positive,
        help="with --vocabulary: split pieces further that occur there less often",
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
            "--vocabulary belongs to --codes, and a sentencepiece model has its own; leave it out"
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
    """Learn or apply a segmenter, as the command line says."""
    options = parse_options()
    options.step(options)


command = partial(run, main)
if __name__ == "__main__":
    command()
