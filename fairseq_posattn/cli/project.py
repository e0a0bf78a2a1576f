r"""Project the trees of words onto subword units ("pieces").

Each output line describes a sentence by `parent:pieces` for each word. With --labels, a tab and the
relations of the words, then a tab and their parts of speech follow. Both commands below write
work/train.en.trees, the file that posattn binarize reads. The second one is for the pieces of
sentencepiece, which are learnt from untokenised text:

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
