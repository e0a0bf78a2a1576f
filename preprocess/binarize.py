#!/usr/bin/env python3
r"""Pieces and trees -> a folder for fairseq-train: dictionaries, binary text and tree files.

    python preprocess/binarize.py --source-lang en --target-lang de \
        --trainpref work/train --validpref work/valid --destdir data-bin

Takes the options of fairseq-preprocess; PREFIX.SRC.trees must lie beside each PREFIX.SRC.
"""

from fairseq_posattn import command_line


def main() -> None:
    from fairseq_posattn.preparation.binarize import binarize, parser

    binarize(parser().parse_args())


if __name__ == "__main__":
    command_line.run(main)
