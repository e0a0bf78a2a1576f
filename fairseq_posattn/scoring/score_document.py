"""Print a page of the documentation site: the JSON of posattn score, from its dataclasses.

python -m fairseq_posattn.scoring.score_document
"""

from __future__ import annotations

from fairseq_posattn.files.record_tables import tables
from fairseq_posattn.scoring.score_record import ScoredSystem

INTRODUCTION = """\
# The JSON of a scored system

`posattn score ... --json FILE` writes this file, `posattn examples` a list of \
[Example](#example), and `posattn heads` [Heads](#heads). A key with a question mark may be \
missing; unknown keys are ignored. Pieces are subword units. With several runs, translations are \
those of the first run."""


def document() -> str:
    return "\n".join([INTRODUCTION, *tables(ScoredSystem)]) + "\n"


if __name__ == "__main__":
    print(document(), end="")
