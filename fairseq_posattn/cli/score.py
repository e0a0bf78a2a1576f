"""Score a translation of a test set, and compare it with a baseline.

posattn score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import write_json
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import as_document
from fairseq_posattn.files.requests import asked
from fairseq_posattn.scoring import system_tables
from fairseq_posattn.scoring.score import ScoreRequest, score


def main() -> None:
    request = asked(ScoreRequest, __doc__)
    with locked(request.json):
        result = score(request)
        if out := request.json:
            write_json(out, as_document(result), ensure_ascii=False, indent=1, allow_nan=False)
    print("\n".join(system_tables.lines(result)))


if __name__ == "__main__":
    run(main)
