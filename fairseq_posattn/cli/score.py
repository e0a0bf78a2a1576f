"""Score a translation of a test set, and compare it with a baseline.

posattn-score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from __future__ import annotations

from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.records import as_document
from fairseq_posattn.lab.scoring import table
from fairseq_posattn.lab.scoring.score import scored_system
from fairseq_posattn.lab.scoring.score_options import parse_arguments


def main() -> None:
    """Score the translation, print the scores and write the JSON."""
    args = parse_arguments()
    with locked(args.json):
        result = scored_system(args)
        if args.json:
            document = as_document(result)
            write_json(args.json, document, ensure_ascii=False, indent=1, allow_nan=False)
    print("\n".join(table.lines(result)))


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
