"""Translate text, a line at a time, with a model that posattn-export has written.

posattn-translate exported < text > translations

Neither torch nor fairseq is needed or imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import islice

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import asked, not_negative, option, positive
from fairseq_posattn.io.command_line import run


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """This says with what, and how, text is translated; each field is an option."""

    folder: str = option("the folder that posattn-export has written", metavar="FOLDER")
    beam: int = option("search with so many hypotheses (default: %(default)s)", 5, type=positive)
    lenpen: float = option("divide scores by this power of the length (default: %(default)s)", 1.0)
    alternatives: int = option(
        "write so many translations of each line (default: %(default)s)", 1, type=positive
    )
    scores: bool = option("write the score and a tab before each translation", False)
    batch: int = option("translate so many lines at once (default: %(default)s)", 32, type=positive)
    threads: int = option(
        "compute with so many threads (default: as many as there are cores)", 0, type=not_negative
    )


def main() -> None:
    """Translate standard input to standard output."""
    from fairseq_posattn.doors.exported import Translator

    request = asked(TranslationRequest, "posattn-translate", __doc__)
    translator = Translator(request.folder, request.threads)
    number = 1
    source = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")  # \r alone is no end
    for lines in batches(source, request.batch):
        found = translator.candidates(
            lines, request.beam, request.lenpen, request.alternatives, number
        )
        for candidates in found:
            for one in candidates:
                print(f"{one.score:.4f}\t{one.text}" if request.scores else one.text)
        sys.stdout.flush()
        number += len(lines)


def batches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the lines, without their ends, in batches."""
    rest = iter(lines)
    try:
        while batch := [line.rstrip("\r\n") for line in islice(rest, size)]:
            yield batch
    except UnicodeDecodeError as error:
        raise InputError(f"standard input: this is no UTF-8 ({error.reason}); convert it") from None


command = partial(run, main)
if __name__ == "__main__":
    command()
