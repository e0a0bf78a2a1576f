"""Extract words, parents and labels from CoNLL-U files, one sentence per line.

OUT.words contains the words, OUT.parents the positions of their parents, and OUT.labels their
dependency relations and parts of speech.

posattn extract train.conllu.xz --out work/train
"""

from functools import partial

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.visible import visible
from fairseq_posattn.preparation.treebanks import extract
from fairseq_posattn.text.parsing.options import add_several_roots


def main() -> None:
    parser = command_parser("posattn extract", __doc__)
    parser.add_argument(
        "treebanks",
        nargs="+",
        metavar="CONLLU",
        help="treebanks to read, concatenated in this order; may be .gz, .xz or .zst",
    )
    parser.add_argument(
        "--out", required=True, help="write the files OUT.words, OUT.parents and OUT.labels"
    )
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="write contractions as in the text (im) instead of their syntactic words (in dem)",
    )
    add_several_roots(parser)
    options = parser.parse_args()
    found = extract(options.treebanks, options.out, options.several_roots, options.tokens)
    done = f"{options.out}: {found.words} words of {found.sentences} sentences were written"
    print(visible(f"{done}; {found.without_tree} of these have no tree"))


command = partial(run, main)
if __name__ == "__main__":
    command()
