"""Describe each attention head of a model on a test set, and what its mechanisms have learnt.

posattn heads DATA --path checkpoint_best.pt --trees test.conllu.xz --out heads.json

For each head, OUT contains the entropy, the mean distance to the pieces attended to, and the
proportion of words that attend most to their parent or a child. posattn score --heads OUT adds
these values to the report.
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import write_json
from fairseq_posattn.files.records import as_document
from fairseq_posattn.files.requests import asked
from fairseq_posattn.inspection.model import HeadRequest


def main() -> None:
    request = asked(HeadRequest, __doc__)
    from fairseq_posattn.inspection.heads import heads

    write_json(request.out, as_document(heads(request)), indent=1)


if __name__ == "__main__":
    run(main)
