r"""Give the sentences of a treebank control trees, which have less of their syntax, or nothing.

    posattn trees train.conllu.xz --control chain --out train.chain.conllu.xz

A gain from syntax is the difference to a model that was trained in the same way on control trees,
because any tree may help. All columns but HEAD, DEPREL and DEPS stay as they are. posattn prepare
takes the same options, and gives new text the same control.
"""

from functools import partial

from fairseq_posattn.io.argument_types import add_fields, chosen, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.preparation.treebanks import control_treebank
from fairseq_posattn.text.parsing.options import add_several_roots
from fairseq_posattn.trees.control import TreeControl


def main() -> None:
    """Write the treebank that the command line names."""
    parser = command_parser("posattn trees", __doc__)
    parser.add_argument(
        "treebank", metavar="CONLLU", help="read this treebank; .gz, .xz and .zst are read"
    )
    parser.add_argument(
        "--out",
        required=True,
        help="write the treebank here; the name ends in .conllu, .conllu.xz or .conllu.zst",
    )
    add_fields(parser, TreeControl)
    add_several_roots(parser)
    options = parser.parse_args()
    control = chosen(TreeControl, options)
    control_treebank(options.treebank, options.out, control, options.several_roots)


command = partial(run, main)
if __name__ == "__main__":
    command()
