"""Draw what a specification of attention, or a layer of a trained model, does to a sentence.

posattn show 'relative(max=4) + window(size=5)' --sentence 'the cat sleeps' --out picture.png
posattn show tree_relative --conllu dev.conllu --number 3 --out picture.html
posattn show --path checkpoint_best.pt --layer 2 --sentence 'The cat sleeps.' --out picture.html

Each stage of each mechanism is a row, in the order in which a layer of the encoder computes them:
masks, biases, relations, changes of scores and weights. The weights without any mechanism stand
first, the resulting weights last. Heads stand side by side, and heads that are alike are drawn
once. Of a SPECIFICATION the word vectors and the projections are random numbers: the picture shows
the mechanism. With --path they are those of a trained encoder, and a raw sentence goes through the
pipeline of its data.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.lab.pictures import HEADS, SEED

if TYPE_CHECKING:
    from fairseq_posattn.lab.pictures.picture import Picture
    from fairseq_posattn.trees.sentence import Sentence


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn show", __doc__)
    parser.add_argument(
        "specification",
        nargs="?",
        metavar="SPECIFICATION",
        help="draw this, written as --encoder-attention takes it",
    )
    parser.add_argument(
        "--path",
        type=Path,
        metavar="CHECKPOINT",
        help="draw the encoder of this trained model, and no SPECIFICATION",
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="with --path: take the data here (default: the folder that the checkpoint names)",
    )
    add_sentence_options(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="write this file, which ends in .png, .svg or .html",
    )
    parser.add_argument(
        "--layer",
        type=not_negative,
        help="draw this layer, counted from 0 (default: the first one where a mechanism acts)",
    )
    parser.add_argument(
        "--heads",
        type=positive,
        help=f"draw so many attention heads (default: {HEADS}, or those of the specification)",
    )
    parser.add_argument(
        "--seed",
        type=not_negative,
        default=SEED,
        help="start the random numbers from this seed (default: %(default)s)",
    )
    parser.add_argument(
        "--user-dir",
        metavar="FOLDER",
        help="import mechanisms of your own from this folder, as in training",
    )
    return parser.parse_args()


def add_sentence_options(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--sentence",
        metavar="TEXT",
        help="take these words, which stand between spaces and have no tree; "
        "with --path, this raw line",
    )
    source.add_argument(
        "--conllu",
        metavar="FILE",
        help="take a sentence with its tree from this file, also .gz, .xz or .zst "
        "(default: a sentence with a tree that is built in)",
    )
    parser.add_argument(
        "--number",
        type=not_negative,
        help="take this sentence of the CoNLL-U file, counted from 0 (default: 0)",
    )


def chosen_sentence(options: argparse.Namespace) -> tuple[str, Sentence]:
    """Return the text and the sentence that were asked for, or those that are built in."""
    from fairseq_posattn.lab.pictures.sentence import BUILT_IN, sentence_of_file, sentence_of_text

    if options.number is not None and options.conllu is None:
        raise InputError("--number counts the sentences of a CoNLL-U file; name it with --conllu")
    if options.conllu is not None:
        return sentence_of_file(options.conllu, options.number or 0)
    if options.sentence is not None:
        return options.sentence, sentence_of_text(options.sentence)
    print(f"built-in sentence, with its tree: {BUILT_IN}")
    return str(BUILT_IN), BUILT_IN


def check(options: argparse.Namespace) -> None:
    """Refuse options of a specification beside those of a trained model."""
    if (options.specification is None) == (options.path is None):
        raise InputError("name what to draw: a SPECIFICATION, or a trained model with --path")
    if options.path is None and options.data is not None:
        raise InputError("--data belongs to --path, the checkpoint of a trained model")
    if options.path is not None and (options.heads is not None or options.seed != SEED):
        raise InputError("a trained model has its own heads and numbers; leave --heads, --seed out")
    if options.path is not None and options.conllu is None and options.sentence is None:
        raise InputError("--path needs a sentence; give --sentence TEXT or --conllu FILE")


def chosen_picture(options: argparse.Namespace) -> Picture:
    text, sentence = chosen_sentence(options)
    if options.path is not None:
        from fairseq_posattn.lab.pictures.trained import trained_picture  # it needs fairseq

        data, user_dir = options.data, options.user_dir
        return trained_picture(options.path, text, sentence, options.layer, data, user_dir)
    from fairseq_posattn.lab.pictures.picture import make_picture
    from fairseq_posattn.testing.own_modules import imported_from

    if options.user_dir is not None:
        imported_from(options.user_dir)
    return make_picture(options.specification, sentence, options.layer, options.heads, options.seed)


def main() -> None:
    options = parse_options()
    check(options)
    from fairseq_posattn.lab.pictures.figure import checked_kind, write

    kind = checked_kind(options.out)
    picture = chosen_picture(options)
    if not write(picture, options.out, kind):
        hint = (
            "the fonts lack some letters, which may be drawn as boxes; install a font with them, "
            "such as Debian's package fonts-noto-cjk for East Asian ones, or write .html"
        )
        print(hint, file=sys.stderr)
    print(options.out)


command = partial(run, main)
if __name__ == "__main__":
    command()
