"""Turn the logs of fairseq-generate into a text to score: in order, complete and detokenised.

DATA/prepare.json says how pieces become text. Without that file the pieces are joined at the
separator, and Moses detokenises the words if a language is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.metrics.spacing import Text
from fairseq_posattn.io.atomic import written_together
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.languages import known
from fairseq_posattn.text.segmenters import SPACE

NUMBER = "(0|[1-9][0-9]{0,14})"
LINES = {  # as fairseq-generate writes them: number, score (of translations), pieces
    "H": re.compile(rf"H-{NUMBER}\t-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)\t(.*)", re.DOTALL),
    "S": re.compile(rf"S-{NUMBER}\t(.*)", re.DOTALL),
}


def outputs(logs: Sequence[str], kind: str = "H") -> list[str]:
    """Return the pieces of each sentence by its number; H means translations, S sources."""
    return outputs_of(read_texts(logs), kind)


def read_texts(logs: Sequence[str]) -> list[Text]:
    """Read the lines of several logs."""
    return [Text(str(log), list(read_lines(log))) for log in logs]


def outputs_of(logs: Sequence[Text], kind: str = "H") -> list[str]:
    """Return the same as `outputs` for logs that are read already."""
    found: dict[int, tuple[str, str]] = {}
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            if line.startswith(f"{kind}-"):
                where = f"{log.name}:{number}"
                sentence, pieces = numbered(line, kind, where)
                check_once(kind, sentence, found, where)
                found[sentence] = where, pieces
    check_complete(kind, found, [log.name for log in logs])
    return [found[sentence][1] for sentence in range(len(found))]


def numbered(line: str, kind: str, where: str) -> tuple[int, str]:
    """Return the number of the sentence and the pieces in a line of the log."""
    found = LINES[kind].fullmatch(line)
    if found is None:
        raise InputError(
            f"{where}: fairseq-generate writes no such line: '{line[:40]}'; give a complete log"
        )
    return int(found[1]), found[2]


def check_once(kind: str, sentence: int, found: dict, where: str) -> None:
    """Refuse a sentence that stands in the logs already."""
    if sentence in found:
        raise InputError(
            f"{where}: {kind}-{sentence} stands already in {found[sentence][0]}; give each shard "
            "of one run once, translated with --nbest 1 (--distributed-world-size makes shards, "
            "--num-shards does not)"
        )


def check_complete(kind: str, found: dict, logs: Sequence[str]) -> None:
    """Refuse logs in which a sentence is missing."""
    names = ", ".join(logs)
    if not found:
        raise InputError(f"{names}: there is no line {kind}-0; name logs of fairseq-generate")
    missing = next((k for k in range(len(found)) if k not in found), None)
    if missing is not None:
        raise InputError(
            f"{names}: {kind}-{missing} is missing; give all shards, and complete logs"
        )


def join_pieces(pieces: str, separator: str) -> str:
    """Return the line of words that the pieces spell."""
    if separator == SPACE:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")
    return (pieces + " ").replace(separator + " ", "").rstrip(" ")


def to_text(data: str, separator: str, language: str | None) -> Callable[[str], str]:
    """Return the function that turns pieces into the text that readers expect."""
    if not Path(data).is_dir():
        raise InputError(f"{data}: there is no such folder; name that of the binarised data")
    if text_pipeline.exists(data):
        from fairseq_posattn.live.codec import PipelineCodec

        return PipelineCodec(text_pipeline.TextPipeline.load(data)).decode
    if language is None:
        return lambda pieces: join_pieces(pieces, separator)
    detokenizer = text_pipeline.moses("MosesDetokenizer", known("--detokenize", language).code)
    return lambda pieces: detokenizer.detokenize(
        join_pieces(pieces, separator).split(), unescape=False
    )


def write(texts: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Write several files, either all of them or none."""
    texts = list(texts)
    with written_together([path for path, _ in texts]) as files:
        for file, (_, lines) in zip(files, texts, strict=True):
            file.writelines(f"{line}\n" for line in lines)
