"""CoNLL-U -> OUT.words and OUT.parents, one sentence a line.

posattn-extract train.conllu.xz --out work/train
"""

import argparse

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.extract import extract
from fairseq_posattn.trees.checks import SEVERAL_ROOTS


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-extract", __doc__)
    parser.add_argument(
        "treebanks",
        nargs="+",
        metavar="CONLLU",
        help="CoNLL-U, plain, .gz, .xz or .zst; several are joined",
    )
    parser.add_argument("--out", required=True, help="where to write: OUT.words and OUT.parents")
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="write words as the text has them: multiword tokens (im), not their words (in dem)",
    )
    parser.add_argument(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="several roots: an error (default), or the first stays and the others hang from it",
    )
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    found = extract(options.treebanks, options.out, options.several_roots, options.tokens)
    print(
        f"{options.out}: {found.sentences} sentences, {found.words} words, "
        f"{found.without_tree} sentences without a tree"
    )


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
