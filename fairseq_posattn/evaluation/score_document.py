"""docs/score_json.md: what stands in the JSON of posattn-score, made from its dataclasses.

python -m fairseq_posattn.evaluation.score_document > docs/score_json.md
"""

from __future__ import annotations

from fairseq_posattn.evaluation.score_record import ScoredSystem
from fairseq_posattn.io.record_tables import tables

INTRODUCTION = """\
# The JSON of a scored system

`posattn-score ... --json FILE` writes it, and `posattn-report` and the tables of the recipes read \
it. A file may have other keys, which are passed over. `posattn-examples` writes a list of \
[Example](#example).

This page is made from the dataclasses that check the files:
`python -m fairseq_posattn.evaluation.score_document > docs/score_json.md`."""


def document() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *tables(ScoredSystem)]) + "\n"


if __name__ == "__main__":
    print(document(), end="")
