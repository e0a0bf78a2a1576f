"""The outputs of fairseq-generate as a text to score: in order, whole, detokenised.

How pieces become text is read from DATA/prepare.json; where there is none, the separator is undone,
and Moses detokenises if a language is named.
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
from fairseq_posattn.text.segmenters import SPACE

NUMBER = "(0|[1-9][0-9]{0,14})"
LINES = {  # as fairseq-generate writes them: number, score (of translations), pieces
    "H": re.compile(rf"H-{NUMBER}\t-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)\t(.*)", re.DOTALL),
    "S": re.compile(rf"S-{NUMBER}\t(.*)", re.DOTALL),
}


def outputs(logs: Sequence[str], kind: str = "H") -> list[str]:
    """The pieces of each sentence (H: translations, S: sources), by their numbers."""
    return outputs_of(read_texts(logs), kind)


def read_texts(logs: Sequence[str]) -> list[Text]:
    return [Text(str(log), list(read_lines(log))) for log in logs]


def outputs_of(logs: Sequence[Text], kind: str = "H") -> list[str]:
    """Like `outputs`, of logs that are read already."""
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
    found = LINES[kind].fullmatch(line)
    if found is None:
        raise InputError(
            f"{where}: not a line of fairseq-generate: '{line[:40]}'; is the log broken off here?"
        )
    return int(found[1]), found[2]


def check_once(kind: str, sentence: int, found: dict, where: str) -> None:
    if sentence in found:
        raise InputError(
            f"{where}: {kind}-{sentence} stands already in {found[sentence][0]}; give each shard "
            "once, of one run with --nbest 1 (shards are made by --distributed-world-size, not by "
            "--num-shards)"
        )


def check_complete(kind: str, found: dict, logs: Sequence[str]) -> None:
    names = ", ".join(logs)
    if not found:
        raise InputError(f"{names}: no line {kind}-0; name logs of fairseq-generate")
    missing = next((k for k in range(len(found)) if k not in found), None)
    if missing is not None:
        raise InputError(
            f"{names}: {kind}-{missing} is missing; a shard is missing, or its log is broken off"
        )


def join_pieces(pieces: str, separator: str) -> str:
    """The line that pieces came from."""
    if separator == SPACE:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")
    return (pieces + " ").replace(separator + " ", "").rstrip(" ")


def to_text(data: str, separator: str, language: str | None) -> Callable[[str], str]:
    """How pieces become a text that readers expect."""
    if not Path(data).is_dir():
        raise InputError(f"{data}: no such folder; name that of the binarised data")
    if text_pipeline.exists(data):
        from fairseq_posattn.live.codec import PipelineCodec

        return PipelineCodec(text_pipeline.TextPipeline.load(data)).decode
    if language is None:
        return lambda pieces: join_pieces(pieces, separator)
    detokenizer = text_pipeline.moses("MosesDetokenizer", language)
    return lambda pieces: detokenizer.detokenize(
        join_pieces(pieces, separator).split(), unescape=False
    )


def write(texts: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Several files, all or none."""
    texts = list(texts)
    with written_together([path for path, _ in texts]) as files:
        for file, (_, lines) in zip(files, texts, strict=True):
            file.writelines(f"{line}\n" for line in lines)
