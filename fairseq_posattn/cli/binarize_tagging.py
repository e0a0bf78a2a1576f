r"""Make a folder for fairseq-train --task tagging from tagged sentences.

    posattn-binarize-tagging --train af-train.conllu --valid af-dev.conllu \
        --test af-test.conllu --destdir data-bin

Files are CoNLL-U (--column upos or xpos) or have two columns, word and tag. They may be compressed
(.gz, .xz or .zst).
"""

from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.visible import visible


def main() -> None:
    """Binarise the tagged sentences that the command line names."""
    from fairseq_posattn.preparation.binarize_tagging import binarize, describe, parser

    args = parser().parse_args()
    print(visible(f"{args.destdir}: {describe(binarize(args))}"))


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
