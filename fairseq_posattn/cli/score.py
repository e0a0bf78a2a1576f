"""Score a translation of a test set, and compare it with a baseline.

posattn score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.scoring import system_tables
from fairseq_posattn.scoring.score import ScoreRequest, write_scores


def main() -> None:
    result = write_scores(asked(ScoreRequest, __doc__))
    print("\n".join(system_tables.lines(result)))


if __name__ == "__main__":
    run(main)
