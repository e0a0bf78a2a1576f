"""Translate text line by line with a model written by posattn export.

posattn translate exported < text > translations

Neither torch nor fairseq is required.
"""

import sys
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import decoded
from fairseq_posattn.files.records import between, option
from fairseq_posattn.files.requests import asked


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """The options of `posattn translate`."""

    command: ClassVar = "posattn translate"
    folder: str = option("folder written by posattn export", metavar="FOLDER")
    beam: int = option("beam size (default: %(default)s)", 5, between(1, 1000))
    lenpen: float = option(
        "length penalty: divide scores by this power of the length (default: %(default)s)",
        1.0,
        between(-10.0, 10.0),
    )
    alternatives: int = option(
        "number of translations per line (default: %(default)s)", 1, between(1, 1000)
    )
    scores: bool = option("write the score and a tab before each translation", False)
    batch: int = option("number of lines per batch (default: %(default)s)", 32, between(1, 10_000))
    threads: int = option(
        "number of threads, at most the number of cores (default: chosen by CTranslate2)",
        0,
        between(0, 100_000),
    )


def main() -> None:
    from fairseq_posattn.integrations.exported import Translator

    request = asked(TranslationRequest, __doc__)
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


if __name__ == "__main__":
    run(main)
