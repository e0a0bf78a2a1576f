r"""Parse a text into CoNLL-U, with exactly one tree per input line, in the same order.

    posattn parse train.en --lang en --model-dir stanza_resources \
        --out work/train.conllu.xz --workers 4

You can interrupt the command at any time; run it again to resume.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.text.parsing.options import ParseRequest


def main() -> None:
    request = asked(ParseRequest, __doc__)
    from fairseq_posattn.text.parsing.run import parse
    from fairseq_posattn.text.parsing.stanza_parser import download

    if request.download:
        download(request.settings)
    parse(request)


if __name__ == "__main__":
    run(main)
