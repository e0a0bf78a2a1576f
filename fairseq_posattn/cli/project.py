r"""Words, parents and pieces -> trees, one sentence a line, `parent:pieces` for each word.

    posattn-project --words work/train.words --parents work/train.parents \
        --pieces work/train.en

or, with pieces of sentencepiece, which come from the untokenised text,

    posattn-project --words work/train.words --parents work/train.parents \
        --pieces work/train.en --text train.txt --sentencepiece work/model

writes work/train.en.trees, where posattn-binarize looks for it.
"""

import argparse

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.project import MISSING_TREE, ProjectionInputs, project
from fairseq_posattn.trees.checks import SEVERAL_ROOTS
from fairseq_posattn.trees.projection import SEPARATOR


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-project", __doc__)
    parser.add_argument("--words", required=True, help="words of the trees (from posattn-extract)")
    parser.add_argument(
        "--parents", required=True, help="parents of the words (from posattn-extract)"
    )
    parser.add_argument(
        "--pieces", required=True, help="pieces of the same sentences (from posattn-segment)"
    )
    parser.add_argument("--sentencepiece", metavar="MODEL", help="the model that made the pieces")
    parser.add_argument("--text", help="with --sentencepiece: the lines that it segmented")
    parser.add_argument("--out", help="where to write the trees (default: PIECES.trees)")
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="ends a piece that its word goes on after (default: %(default)s)",
    )
    parser.add_argument(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="an error (default), or keep the first root",
    )
    parser.add_argument(
        "--missing-tree",
        choices=MISSING_TREE,
        default="error",
        help="no tree: an error (default), or a flat one, each word a child of the first",
    )
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    project(ProjectionInputs(**settings), options.out or f"{options.pieces}.trees")


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
