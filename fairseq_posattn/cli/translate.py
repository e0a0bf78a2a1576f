"""Translate text line by line with a model written by posattn export.

posattn translate exported < text > translations

Neither torch nor fairseq is required.
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
    """The options of `posattn translate`."""

    folder: str = option("folder written by posattn export", metavar="FOLDER")
    beam: int = option("beam size (default: %(default)s)", 5, type=between(1, 1000))
    lenpen: float = option(
        "length penalty: divide scores by this power of the length (default: %(default)s)",
        1.0,
        type=between(-10.0, 10.0),
    )
    alternatives: int = option(
        "number of translations per line (default: %(default)s)", 1, type=between(1, 1000)
    )
    scores: bool = option("write the score and a tab before each translation", False)
    batch: int = option(
        "number of lines per batch (default: %(default)s)", 32, type=between(1, 10_000)
    )
    threads: int = option(
        "number of threads, at most the number of cores (default: chosen by CTranslate2)",
        0,
        type=between(0, 100_000),
    )


def main() -> None:
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
