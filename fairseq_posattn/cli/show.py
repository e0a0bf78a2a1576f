"""Draw what a specification of attention does to a sentence.

posattn-show 'relative(max=4) + window(size=5)' --sentence 'the cat sleeps' --out picture.png
posattn-show tree_relative --conllu dev.conllu --number 3 --out picture.html

Each stage of each mechanism is a row, in the order in which a layer of the encoder computes them:
masks, biases, relations, changes of scores and weights. The weights without any mechanism stand
first, the resulting weights last. Heads stand side by side, and heads that are alike are drawn
once. The word vectors and the projections are random numbers: a picture shows the mechanism, not
a trained model.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.lab.pictures.figure import checked_kind, write
from fairseq_posattn.lab.pictures.picture import HEADS, SEED, make_picture
from fairseq_posattn.lab.pictures.sentence import BUILT_IN, sentence_of_file, sentence_of_text
from fairseq_posattn.testing.own_modules import imported_from
from fairseq_posattn.trees.sentence import Sentence


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-show", __doc__)
    parser.add_argument(
        "specification",
        metavar="SPECIFICATION",
        help="draw this, written as --encoder-attention takes it",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--sentence",
        metavar="TEXT",
        help="take these words, which stand between spaces and have no tree",
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
        metavar="N",
        help="take this sentence of the CoNLL-U file, counted from 0 (default: 0)",
    )
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
        metavar="N",
        help="draw this layer, counted from 0 (default: the first one where a mechanism acts)",
    )
    parser.add_argument(
        "--heads",
        type=positive,
        metavar="N",
        help=f"draw so many attention heads (default: {HEADS}, or those of the specification)",
    )
    parser.add_argument(
        "--seed",
        type=not_negative,
        default=SEED,
        metavar="N",
        help="start the random numbers from this seed (default: %(default)s)",
    )
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        help="import mechanisms of your own from this folder, as in training",
    )
    return parser.parse_args()


def chosen_sentence(options: argparse.Namespace) -> Sentence:
    """Return the sentence that was asked for, or the one that is built in."""
    if options.number is not None and options.conllu is None:
        raise InputError("--number counts the sentences of a CoNLL-U file; name it with --conllu")
    if options.conllu is not None:
        return sentence_of_file(options.conllu, options.number or 0)
    if options.sentence is not None:
        return sentence_of_text(options.sentence)
    print(f"built-in sentence, with its tree: {BUILT_IN}")
    return BUILT_IN


def main() -> None:
    options = parse_options()
    kind = checked_kind(options.out)
    if options.user_dir is not None:
        imported_from(options.user_dir)
    sentence = chosen_sentence(options)
    picture = make_picture(
        options.specification, sentence, options.layer, options.heads, options.seed
    )
    if not write(picture, options.out, kind):
        hint = "the font lacks some letters, which are drawn as boxes; .html has them all"
        print(hint, file=sys.stderr)
    print(options.out)


command = partial(run, main)
if __name__ == "__main__":
    command()
