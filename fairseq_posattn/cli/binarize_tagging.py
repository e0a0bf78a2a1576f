r"""Build a data folder for fairseq-train --task tagging from tagged sentences.

    posattn binarize-tagging --train af-train.conllu --valid af-dev.conllu \
        --test af-test.conllu --destdir data-bin

Input files are in CoNLL-U format (choose the tags with --column upos or --column xpos) or contain
two columns, the word and its tag. They may be compressed (.gz, .xz or .zst).
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.tagging.sentences import TaggingData


def main() -> None:
    data = asked(TaggingData, __doc__)
    from fairseq_posattn.tagging.dataset import binarize, describe

    print(visible(f"{data.destdir}: {describe(binarize(data))}"))


if __name__ == "__main__":
    run(main)
