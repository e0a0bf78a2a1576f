r"""Project trees onto pieces: read words, parents and pieces, and write trees.

Each line is a sentence with `parent:pieces` for each word; with --labels, a tab, the relations of
the words, a tab, and their parts of speech follow. Either of these commands writes
work/train.en.trees, where posattn binarize looks for it. The second one is for pieces of
sentencepiece, which come from untokenised text:

    posattn project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en

    posattn project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en --text train.txt \
        --sentencepiece work/model
"""

from functools import partial

from fairseq_posattn.io.argument_types import add_fields, chosen, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.project import ProjectionInputs, project
from fairseq_posattn.text.parsing.options import add_several_roots


def main() -> None:
    """Project the trees that the command line names."""
    parser = command_parser("posattn project", __doc__)
    add_fields(parser, ProjectionInputs)
    add_several_roots(parser)
    parser.add_argument("--out", help="write the trees to this file (default: PIECES.trees)")
    options = parser.parse_args()
    inputs = chosen(ProjectionInputs, options, several_roots=options.several_roots)
    project(inputs, options.out or f"{inputs.pieces}.trees")


command = partial(run, main)
if __name__ == "__main__":
    command()
