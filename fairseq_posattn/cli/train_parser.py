r"""Train stanza models (for --model-dir) on a treebank of any language, with stanza's trainers.

    posattn train-parser UD_Coptic-Scriptorium --lang cop --out models
    posattn parse text.cop --lang cop --model-dir models --out text.conllu

You can interrupt the command; run it again to resume (--kind local restarts).
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.text.parsing.training import TrainingRequest, train_parser

NAMES = {
    "upos": "UPOS",
    "uas": "UAS",
    "las": "LAS",
    "token_f1": "F1 of tokens",
    "word_f1": "F1 of words",
}


def main() -> None:
    request = asked(TrainingRequest, __doc__)
    found = ", ".join(f"{NAMES[name]} {score:.2f}" for name, score in train_parser(request).items())
    print(f"{request.out}: on dev, {found}")


if __name__ == "__main__":
    run(main)
