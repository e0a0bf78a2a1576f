r"""Pieces and trees -> a folder for fairseq-train: dictionaries, binary text and tree files.

    posattn-binarize --source-lang en --target-lang de \
        --trainpref work/train --validpref work/valid --destdir data-bin

Takes the options of fairseq-preprocess; PREFIX.SRC.trees must lie beside each PREFIX.SRC.
"""

from fairseq_posattn.io.command_line import run


def main() -> None:
    from fairseq_posattn.preparation.binarize import binarize, parser

    binarize(parser().parse_args())


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
