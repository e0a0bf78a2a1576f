"""Translate text, a line at a time, with a model that posattn export has written.

posattn translate exported < text > translations

Neither torch nor fairseq is needed or imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from itertools import islice

from fairseq_posattn.io.argument_types import asked, between, option
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import decoded


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """This says with what, and how, text is translated; each field is an option."""

    folder: str = option("the folder that posattn export has written", metavar="FOLDER")
    beam: int = option(
        "search with so many hypotheses (default: %(default)s)", 5, type=between(1, 1000)
    )
    lenpen: float = option(
        "divide scores by this power of the length (default: %(default)s)",
        1.0,
        type=between(-10.0, 10.0),
    )
    alternatives: int = option(
        "write so many translations of each line (default: %(default)s)", 1, type=between(1, 1000)
    )
    scores: bool = option("write the score and a tab before each translation", False)
    batch: int = option(
        "translate so many lines at once (default: %(default)s)", 32, type=between(1, 10_000)
    )
    threads: int = option(
        "compute with so many threads (default, and at most: as many as there are cores)",
        0,
        type=between(0, 100_000),
    )


def main() -> None:
    """Translate standard input to standard output."""
    from fairseq_posattn.doors.exported import Translator

    request = asked(TranslationRequest, "posattn translate", __doc__)
    translator = Translator(request.folder, request.threads)
    source, number = decoded(sys.stdin.buffer, "standard input"), 1
    while lines := list(islice(source, request.batch)):
        found = translator.candidates(
            lines, request.beam, request.lenpen, request.alternatives, number
        )
        for candidates in found:
            for one in candidates:
                print(f"{one.score:.4f}\t{one.text}" if request.scores else one.text)
        sys.stdout.flush()
        number += len(lines)


command = partial(run, main)
if __name__ == "__main__":
    command()
