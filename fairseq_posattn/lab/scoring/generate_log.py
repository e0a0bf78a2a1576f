"""Read the logs of fairseq-generate: translations, in order and complete, as text; and the speed.

DATA/prepare.json says how pieces become text. Without that file the pieces are joined at the
separator, and Moses detokenises the words if a language is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.scoring.score_record import Decoding
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.languages import known
from fairseq_posattn.text.segmenters import SPACE

NUMBER = "(0|[1-9][0-9]{0,14})"
SCORE = r"-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)"
# A line of the program's log without a line end before it would become a part of a translation.
LOGGED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| "
TEXT = rf"((?:(?!{LOGGED})[^\t])*)"
LINES = {  # as fairseq-generate writes them: number, score (of translations), pieces or text
    "H": re.compile(rf"H-{NUMBER}\t{SCORE}\t{TEXT}"),
    "S": re.compile(rf"S-{NUMBER}\t{TEXT}"),
    "D": re.compile(rf"D-{NUMBER}\t{SCORE}\t(.*)", re.DOTALL),
}
SET = re.compile(
    r"Generate (.+) with beam=\d+: |.*\| fairseq_cli\.generate \| \{.*'gen_subset': '([^']+)'"
)
COUNT, FIGURE = r"([0-9][0-9,]{0,19})", r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
TRANSLATED = re.compile(
    rf"Translated {COUNT} sentences \({COUNT} tokens\) in {FIGURE}s "
    rf"\({FIGURE} sentences/s, {FIGURE} tokens/s\)"
)
TRANSLATION = re.compile(r"H-([0-9]{1,15})\t")


class Log(NamedTuple):
    """Holds the lines of a log and the name that messages give it."""

    name: str
    lines: Sequence[str]


def read_logs(paths: Sequence[str | Path]) -> list[Log]:
    return [Log(str(path), list(read_lines(path))) for path in paths]


def outputs(logs: Sequence[Log], kind: str = "H") -> list[str]:
    """Return the pieces of each sentence by its number; H means translations, S sources."""
    found = found_in(logs, kind)
    names = ", ".join(log.name for log in logs)
    if not found:
        raise InputError(f"{names}: there is no line {kind}-0; name logs of fairseq-generate")
    missing = next((k for k in range(len(found)) if k not in found), None)
    if missing is not None:
        raise InputError(
            f"{names}: {kind}-{missing} is missing; give all shards, and complete logs"
        )
    # fairseq writes a line D-NUMBER after each translation; who keeps the lines H alone has none
    texts = found_in(logs, "D") if kind == "H" else {}
    cut = next((k for k in found if texts and k not in texts), None)
    if cut is not None:
        raise InputError(
            f"{names}: H-{cut} is there, but D-{cut} is missing, so the log is cut off; give a "
            "complete log"
        )
    return [found[sentence][1] for sentence in range(len(found))]


def found_in(logs: Sequence[Log], kind: str) -> dict[int, tuple[str, str]]:
    """Return the place and the pieces of each sentence by its number."""
    found: dict[int, tuple[str, str]] = {}
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            if not line.startswith(f"{kind}-"):
                continue
            where = f"{log.name}:{number}"
            match = LINES[kind].fullmatch(line)
            if match is None:
                raise InputError(
                    f"{where}: fairseq-generate writes no such line: '{line[:40]}'; give a "
                    "complete log"
                )
            sentence = int(match[1])
            if sentence in found:
                raise InputError(
                    f"{where}: {kind}-{sentence} stands already in {found[sentence][0]}; give each "
                    "shard of one run once, translated with --nbest 1 (--distributed-world-size "
                    "makes shards, --num-shards does not)"
                )
            found[sentence] = where, match[2]
    return found


def check_set(logs: Sequence[Log], data: str, subset: str, translations: int) -> None:
    """Refuse logs of another set, or those without all sentences that the set has in the data.

    A log that does not name its set is taken for one of the set. A folder that does not have the
    set tells no number of sentences.
    """
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            named = SET.match(line)
            other = named and (named[1] or named[2])
            if other not in (None, subset):
                raise InputError(
                    f"{log.name}:{number}: this is a log of the set '{other}', not of '{subset}'; "
                    f"give a log of '{subset}', or --gen-subset {other}"
                )
    if any(line.startswith("W-") for log in logs for line in log.lines):
        return  # fairseq-interactive writes such lines, and translates text that is no set
    sentences = sentences_of(data, subset)
    if sentences and translations not in sentences:
        raise InputError(
            f"{', '.join(log.name for log in logs)}: there are {translations} translations, but "
            f"the set '{subset}' in {data} has {max(sentences)} sentences; give all shards, and "
            "complete logs, or name their set with --gen-subset"
        )


def sentences_of(data: str, subset: str) -> set[int]:
    """Return how many sentences a set of binarised data has, in each of its pairs of languages."""
    from fairseq_posattn.glue.patches.checked_data import HEADER, MAGIC

    found = set()
    for path in Path(data).glob(f"{escape(subset)}.*-*.*.idx"):
        with open(path, "rb") as file:
            header = file.read(HEADER.size)
        if header.startswith(MAGIC) and len(header) == HEADER.size:
            found.add(HEADER.unpack(header)[-1])
    return found


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
        from fairseq_posattn.text.live.segmented import PipelineCodec

        return PipelineCodec(text_pipeline.TextPipeline.load(data)).decode
    if language is None:
        return lambda pieces: join_pieces(pieces, separator)
    detokenizer = text_pipeline.moses("MosesDetokenizer", known("--detokenize", language).code)
    return lambda pieces: detokenizer.detokenize(
        join_pieces(pieces, separator).split(), unescape=False
    )


class Run(NamedTuple):
    """Holds the figures of the line that ends a run of fairseq-generate."""

    sentences: int
    pieces: int
    seconds: float
    sentences_per_second: float
    pieces_per_second: float


def speed(paths: Sequence[str]) -> Decoding:
    """Return the speed of a run of fairseq-generate; several logs are shards of one run.

    Their sentences add up, and the slowest shard gives the time.
    """
    refuse_repeated(paths)
    runs = [translated(path) for path in paths]
    [whole, *others] = runs
    if others:
        sentences, pieces = sum(run.sentences for run in runs), sum(run.pieces for run in runs)
        seconds = max(run.seconds for run in runs)
        if not seconds:
            raise InputError(
                f"{paths[0]}: the run took 0.0 seconds; translate more sentences to measure a speed"
            )
        whole = Run(sentences, pieces, seconds, sentences / seconds, pieces / seconds)
    return Decoding(**{name: value for name, value in whole._asdict().items() if name != "pieces"})


def refuse_repeated(paths: Sequence[str]) -> None:
    """Refuse logs that translate the same sentences, which are no shards of one run."""
    first: dict[str, str] = {}
    for path in paths if len(paths) > 1 else ():
        for line in read_lines(path):
            if found := TRANSLATION.match(line):
                other = first.setdefault(found[1], path)
                if other != path:
                    raise InputError(
                        f"{path}: the sentence {found[1]} is in {other}, too; name the logs of one "
                        "run, whose speed is shown"
                    )


def translated(path: str) -> Run:
    """Return the figures of the only run in a log."""
    found = [match for line in read_lines(path) if (match := TRANSLATED.search(line))]
    if len(found) != 1:
        raise InputError(
            f"{path}: the log has {len(found)} lines 'Translated ... sentences'; "
            "name the whole log of one run of fairseq-generate"
        )
    sentences, pieces, *rest = found[0].groups()
    return Run(*(int(count.replace(",", "")) for count in (sentences, pieces)), *map(float, rest))
