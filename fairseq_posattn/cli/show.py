"""Draw how mechanisms, or a layer of a trained model, change the attention in a sentence.

posattn show 'relative(max=4) + window(size=5)' --sentence 'the cat sleeps' --out picture.png
posattn show tree_relative --conllu dev.conllu --number 3 --out picture.html
posattn show --path checkpoint_best.pt --layer 2 --sentence 'The cat sleeps.' --out picture.html

The first row shows the weights without any mechanism, and the last row shows the resulting weights.
Each row in between shows one stage of a mechanism, in the order of computation in an encoder layer:
masks, biases, relations, modified scores and modified weights. Each column shows a head; identical
heads are drawn once. With a SPECIFICATION, word vectors and projections are random, so the picture
shows the mechanism alone. With --path, a trained encoder provides both, and a raw sentence is
preprocessed like the model's data.
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
from fairseq_posattn.lab.inspection import HEADS, SEED

if TYPE_CHECKING:
    from fairseq_posattn.lab.inspection.picture import Picture
    from fairseq_posattn.trees.sentence import Sentence


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn show", __doc__)
    parser.add_argument(
        "specification",
        nargs="?",
        metavar="SPECIFICATION",
        help="mechanisms to draw (same syntax as --encoder-attention)",
    )
    parser.add_argument(
        "--path",
        type=Path,
        metavar="CHECKPOINT",
        help="draw the encoder of this trained model instead of a SPECIFICATION",
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="with --path: data folder of the model (default: the path stored in the checkpoint)",
    )
    add_sentence_options(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="write the picture to this file (.png, .svg or .html)",
    )
    parser.add_argument(
        "--layer",
        type=not_negative,
        help="draw this layer, counted from 0 (default: the first layer with a mechanism)",
    )
    parser.add_argument(
        "--heads",
        type=positive,
        help=f"number of attention heads (default: {HEADS}, or as in the specification)",
    )
    parser.add_argument(
        "--seed",
        type=not_negative,
        default=SEED,
        help="random seed (default: %(default)s)",
    )
    parser.add_argument(
        "--user-dir",
        metavar="FOLDER",
        help="import your own mechanisms from this folder, as in training",
    )
    return parser.parse_args()


def add_sentence_options(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--sentence",
        metavar="TEXT",
        help="draw this sentence, which has no tree and is split at spaces (with --path: a raw "
        "sentence)",
    )
    source.add_argument(
        "--conllu",
        metavar="FILE",
        help="draw a sentence and its tree from this file, which may be .gz, .xz or .zst "
        "(default: a built-in sentence)",
    )
    parser.add_argument(
        "--number",
        type=not_negative,
        help="with --conllu: draw this sentence, counted from 0 (default: 0)",
    )


def chosen_sentence(options: argparse.Namespace) -> tuple[str, Sentence]:
    """Return the text and the words of the chosen sentence, or of the built-in example."""
    from fairseq_posattn.lab.inspection.sentence import BUILT_IN, sentence_of_file, sentence_of_text

    if options.number is not None and options.conllu is None:
        raise InputError(
            "--number selects a sentence in a CoNLL-U file; give the file with --conllu"
        )
    if options.conllu is not None:
        return sentence_of_file(options.conllu, options.number or 0)
    if options.sentence is not None:
        return options.sentence, sentence_of_text(options.sentence)
    print(f"built-in sentence, with its tree: {BUILT_IN}")
    return str(BUILT_IN), BUILT_IN


def check(options: argparse.Namespace) -> None:
    """Raise an InputError if options for a specification and options for a model are combined."""
    if (options.specification is None) == (options.path is None):
        raise InputError("expected either a SPECIFICATION or --path; give one of them")
    if options.path is None and options.data is not None:
        raise InputError("--data applies only to a trained model; give its checkpoint with --path")
    if options.path is not None and (options.heads is not None or options.seed != SEED):
        raise InputError("--heads and --seed do not apply to a trained model; leave them out")
    if options.path is not None and options.conllu is None and options.sentence is None:
        raise InputError("--path requires a sentence; give --sentence TEXT or --conllu FILE")


def chosen_picture(options: argparse.Namespace) -> Picture:
    text, sentence = chosen_sentence(options)
    if options.path is not None:
        from fairseq_posattn.lab.inspection.trained import trained_picture  # it needs fairseq

        data, user_dir = options.data, options.user_dir
        return trained_picture(options.path, text, sentence, options.layer, data, user_dir)
    from fairseq_posattn.lab.inspection.picture import make_picture
    from fairseq_posattn.testing.own_modules import imported_from

    if options.user_dir is not None:
        imported_from(options.user_dir)
    return make_picture(options.specification, sentence, options.layer, options.heads, options.seed)


def main() -> None:
    options = parse_options()
    check(options)
    from fairseq_posattn.lab.inspection.figure import checked_kind, write

    kind = checked_kind(options.out)
    picture = chosen_picture(options)
    if not write(picture, options.out, kind):
        hint = (
            "the installed fonts lack some characters, which may be drawn as boxes; install a "
            "font that contains them (for East Asian text, Debian's fonts-noto-cjk), or write an "
            ".html file"
        )
        print(hint, file=sys.stderr)
    print(options.out)


command = partial(run, main)
if __name__ == "__main__":
    command()
