r"""Replace the trees of a treebank by control trees, which contain less or no syntax.

    posattn trees train.conllu.xz --control chain --out train.chain.conllu.xz

Models may gain from any tree. Therefore, to measure the gain from syntax, compare a model with the
same model trained on control trees. Only the columns HEAD, DEPREL and DEPS change. posattn prepare
has the same options, and applies the same control to new text.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.preparation.treebanks import ControlRequest, control_treebank


def main() -> None:
    control_treebank(asked(ControlRequest, __doc__))


if __name__ == "__main__":
    run(main)
