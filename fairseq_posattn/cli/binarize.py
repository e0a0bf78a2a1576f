r"""Make a folder for fairseq-train from pieces and trees: dictionaries, binary text and tree files.

    posattn binarize --source-lang en --target-lang de \
        --trainpref work/train --validpref work/valid --destdir data-bin

The options are those of fairseq-preprocess. PREFIX.SRC.trees must lie beside each PREFIX.SRC.
"""

from functools import partial

from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.visible import visible


def main() -> None:
    """Binarise the data that the command line names."""
    from fairseq_posattn.preparation.binarize import binarize, parser

    args = parser().parse_args()
    folder = args.destdir  # while it works, another one
    binarize(args)
    print(visible(f"{folder}: the data are ready; preprocess.log has what fairseq says of them"))


command = partial(run, main)
if __name__ == "__main__":
    command()
