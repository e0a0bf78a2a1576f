r"""Build a data folder for fairseq-train (dictionaries, binary text, trees) from segmented text.

    posattn binarize --source-lang en --target-lang de \
        --trainpref work/train --validpref work/valid --destdir data-bin

The options include those of fairseq-preprocess. Each source file PREFIX.SRC needs a tree file
PREFIX.SRC.trees in the same folder; posattn project writes these files.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.terminal import visible


def main() -> None:
    from fairseq_posattn.preparation.binarize import binarize, parser

    args = parser().parse_args()
    folder = args.destdir  # binarize() replaces it by a temporary folder
    binarize(args)
    print(visible(f"{folder}: the data are ready; preprocess.log contains fairseq's statistics"))


if __name__ == "__main__":
    run(main)
