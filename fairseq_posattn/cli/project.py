r"""Project word-level trees onto subword units ("pieces").

Each output line contains one item `parent:pieces` per word: the position of the word's parent, and
the number of its pieces. With --labels, the words' relations and parts of speech follow as two
tab-separated columns. Both commands below write work/train.en.trees, the file that posattn binarize
reads. Use the second command for sentencepiece, whose pieces are learnt from untokenised text:

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
