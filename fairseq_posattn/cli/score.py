"""Score a translation of a test set, and compare it with a baseline.

posattn score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from __future__ import annotations

from functools import partial

from fairseq_posattn.io.argument_types import Parser, add_fields
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.records import as_document
from fairseq_posattn.lab.scoring import on_screen
from fairseq_posattn.lab.scoring.score import ScoreRequest, score


def main() -> None:
    parser = Parser(
        prog="posattn score",
        description="Score a translation of a test set, and compare it with a baseline.",
    )
    parser.add_argument(
        "--json", metavar="OUT", help="write all scores to this file, for posattn report"
    )
    add_fields(parser, ScoreRequest, {"references", "sgm"}, {"target_lang": "-t"})
    options = vars(parser.parse_args())
    out = options.pop("json")
    with locked(out):
        result = score(ScoreRequest(**options))
        if out:
            write_json(out, as_document(result), ensure_ascii=False, indent=1, allow_nan=False)
    print("\n".join(on_screen.lines(result)))


command = partial(run, main)
if __name__ == "__main__":
    command()
