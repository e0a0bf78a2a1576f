r"""Project trees onto pieces: read words, parents and pieces, and write trees.

Each line is a sentence with `parent:pieces` for each word; with --labels, a tab, the relations of
the words, a tab, and their parts of speech follow. Either of these commands writes
work/train.en.trees, where posattn-binarize looks for it. The second one is for pieces of
sentencepiece, which come from untokenised text:

    posattn-project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en

    posattn-project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en --text train.txt \
        --sentencepiece work/model
"""

import argparse

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.project import MISSING_TREE, ProjectionInputs, project
from fairseq_posattn.text.parsing.options import add_several_roots
from fairseq_posattn.trees.projection import SEPARATOR


def parse_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = command_parser("posattn-project", __doc__)
    parser.add_argument(
        "--words", required=True, help="read the words that posattn-extract wrote to this file"
    )
    parser.add_argument(
        "--parents", required=True, help="read the parents that posattn-extract wrote to this file"
    )
    parser.add_argument(
        "--labels",
        help="read the relations and parts of speech that posattn-extract wrote to this file; "
        "without it the trees have none",
    )
    parser.add_argument(
        "--pieces", required=True, help="read the pieces that posattn-segment wrote to this file"
    )
    parser.add_argument(
        "--sentencepiece", metavar="MODEL", help="the pieces were made by this model"
    )
    parser.add_argument(
        "--text", help="with --sentencepiece: the lines of this file were segmented by the model"
    )
    parser.add_argument("--out", help="write the trees to this file (default: PIECES.trees)")
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="this marks the end of a piece that is joined to the next (default: %(default)s)",
    )
    add_several_roots(parser)
    parser.add_argument(
        "--missing-tree",
        choices=MISSING_TREE,
        default="error",
        help="if a sentence has no tree, stop with an error (default), or write a flat tree, in "
        "which each word is a child of the first",
    )
    return parser.parse_args()


def main() -> None:
    """Project the trees that the command line names."""
    options = parse_options()
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    project(ProjectionInputs(**settings), options.out or f"{options.pieces}.trees")


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
