"""Learn subword units ("pieces") from text, and split text into them.

With byte-pair encoding of tokenised text (subword-nmt):

    posattn segment learn work/train.words work/train.de.words --codes work/codes
    posattn segment apply work/train.words --codes work/codes --out work/train.en

With sentencepiece, on text that need not be tokenised:

    posattn segment learn train.en train.de --sentencepiece work/model
    posattn segment apply train.en --sentencepiece work/model --out work/train.en
"""

from fairseq_posattn.files import command_line
from fairseq_posattn.files.requests import asked_step
from fairseq_posattn.preparation.segment import ApplyRequest, LearnRequest, run


def main() -> None:
    run(asked_step([LearnRequest, ApplyRequest], __doc__))


if __name__ == "__main__":
    command_line.run(main)
