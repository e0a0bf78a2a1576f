r"""Build a data folder for --task structured_translation from raw parallel text.

    posattn prepare --source en --target de --train raw/train --valid raw/val \
        --test raw/test --model-dir stanza_resources --symbols 8000 --out data

The command reads raw/train.en, raw/train.de and so on. You can interrupt it at any time; run it
again to resume. The settings are stored in data/prepare.json, so that new text is preprocessed
identically.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.preparation.request import PreparationRequest


def main() -> None:
    request = asked(PreparationRequest, __doc__)
    from fairseq_posattn.preparation.prepare import prepare  # imports torch

    prepare(request)


if __name__ == "__main__":
    run(main)
