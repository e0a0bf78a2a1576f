r"""Replace the trees of a treebank by control trees, which contain less or no syntax.

    posattn trees train.conllu.xz --control chain --out train.chain.conllu.xz

Models may gain from any tree. Therefore, to measure the gain from syntax, compare a model with the
same model trained on control trees. Only the columns HEAD, DEPREL and DEPS change. posattn prepare
has the same options, and applies the same control to new text.
"""

from functools import partial

from fairseq_posattn.io.argument_types import add_fields, chosen, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.treebanks import control_treebank
from fairseq_posattn.text.parsing.options import add_several_roots
from fairseq_posattn.trees.control import TreeControl


def main() -> None:
    parser = command_parser("posattn trees", __doc__)
    parser.add_argument(
        "treebank", metavar="CONLLU", help="treebank to change; may be .gz, .xz or .zst"
    )
    parser.add_argument(
        "--out",
        required=True,
        help="write the treebank to this file (.conllu, .conllu.xz or .conllu.zst)",
    )
    add_fields(parser, TreeControl)
    add_several_roots(parser)
    options = parser.parse_args()
    control = chosen(TreeControl, options)
    control_treebank(options.treebank, options.out, control, options.several_roots)


command = partial(run, main)
if __name__ == "__main__":
    command()
