"""Read translations and translation speed from logs of fairseq-generate.

Translations are checked for completeness, sorted, and converted to plain text as DATA/prepare.json
specifies. Without that file, subword units are joined at the separator, and words are detokenised
with Moses if a language is given.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import ClassVar, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.records import option
from fairseq_posattn.scoring.score_record import Decoding
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.languages import known
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees.projection import SEPARATOR

NUMBER = "(0|[1-9][0-9]{0,14})"
SCORE = r"-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)"
# If a line end is missing, a log message follows the translation; such lines are rejected.
LOGGED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| "
TEXT = rf"((?:(?!{LOGGED})[^\t])*)"
LINES = {  # output of fairseq-generate: number, score (of translations), pieces or text
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


@dataclass(frozen=True, kw_only=True)
class TranslationsRequest:
    """The options of `posattn translations`."""

    command: ClassVar = "posattn translations"
    data: str = option("data folder, which stores how subword units are joined into words")
    logs: list[str] = option("logs of fairseq-generate (all shards of one run)")
    out: str = option("write one translation per line to this file", required=True)
    gen_subset: str = option(
        "subset that was translated; its number of sentences is checked (default: %(default)s)",
        "test",
        metavar="NAME",
    )
    sources: str | None = option(
        "also write the segmented sources to this file", None, metavar="OUT"
    )
    separator: str = option(
        "subword marker, @@ or \u2581, if the data folder does not define it (default: "
        "%(default)s)",
        SEPARATOR,
    )
    detokenize: str | None = option(
        "detokenise with Moses for this language, unless the data folder defines a detokeniser",
        None,
        metavar="LANG",
    )


class Log(NamedTuple):
    """The lines of a log, and the file name for error messages."""

    name: str
    lines: Sequence[str]


def read_logs(paths: Sequence[str | Path]) -> list[Log]:
    return [Log(str(path), list(read_lines(path))) for path in paths]


def outputs(logs: Sequence[Log], kind: str = "H") -> list[str]:
    """Return the pieces of all sentences, sorted by sentence number.

    kind: "H" for translations, "S" for source sentences.
    Raises InputError if a sentence is missing.
    """
    found = found_in(logs, kind)
    names = ", ".join(log.name for log in logs)
    if not found:
        raise InputError(f"{names}: no line {kind}-0 found; use logs of fairseq-generate")
    missing = next((k for k in range(len(found)) if k not in found), None)
    if missing is not None:
        raise InputError(
            f"{names}: the line {kind}-{missing} is missing; pass the complete logs of all shards"
        )
    # fairseq writes a line D-NUMBER after each line H-NUMBER, but users may keep only the H lines
    texts = found_in(logs, "D") if kind == "H" else {}
    cut = next((k for k in found if texts and k not in texts), None)
    if cut is not None:
        raise InputError(
            f"{names}: the log is truncated, because H-{cut} is present but D-{cut} is missing; "
            "use a complete log"
        )
    return [found[sentence][1] for sentence in range(len(found))]


def found_in(logs: Sequence[Log], kind: str) -> dict[int, tuple[str, str]]:
    """Return the position (FILE:LINE) and the pieces of each sentence, by sentence number."""
    found: dict[int, tuple[str, str]] = {}
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            if not line.startswith(f"{kind}-"):
                continue
            where = f"{log.name}:{number}"
            match = LINES[kind].fullmatch(line)
            if match is None:
                raise InputError(
                    f"{where}: '{line[:40]}' is not valid output of fairseq-generate; use a "
                    "complete log"
                )
            sentence = int(match[1])
            if sentence in found:
                raise InputError(
                    f"{where}: {kind}-{sentence} already occurs in {found[sentence][0]}; give "
                    "one log for each shard of a single run, translated with --nbest 1, and with "
                    "--distributed-world-size instead of --num-shards"
                )
            found[sentence] = where, match[2]
    return found


def check_set(logs: Sequence[Log], data: str, subset: str, translations: int) -> None:
    """Raise an InputError if the logs are from another subset or lack sentences of this subset.

    Logs that do not contain the name of their subset are accepted. The number of sentences is
    checked only if the data folder contains the subset.
    """
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            named = SET.match(line)
            other = named and (named[1] or named[2])
            if other not in (None, subset):
                raise InputError(
                    f"{log.name}:{number}: the log is from the subset '{other}', not '{subset}'; "
                    f"use a log of '{subset}', or add --gen-subset {other}"
                )
    if any(line.startswith("W-") for log in logs for line in log.lines):
        return  # the log is from fairseq-interactive, which does not translate a subset
    sentences = sentences_of(data, subset)
    if sentences and translations not in sentences:
        raise InputError(
            f"{', '.join(log.name for log in logs)}: found {translations} translations, but the "
            f"subset '{subset}' in {data} has {max(sentences)} sentences; pass the complete logs "
            "of all shards, or give their subset with --gen-subset"
        )


def sentences_of(data: str, subset: str) -> set[int]:
    """Return how many sentences a subset has, as a set, because language pairs may differ."""
    from fairseq_posattn.fairseq_plugin.patches.checked_data import HEADER, MAGIC

    found = set()
    for path in Path(data).glob(f"{escape(subset)}.*-*.*.idx"):
        with open(path, "rb") as file:
            header = file.read(HEADER.size)
        if header.startswith(MAGIC) and len(header) == HEADER.size:
            found.add(HEADER.unpack(header)[-1])
    return found


def join_pieces(pieces: str, separator: str) -> str:
    """Join subword units into words: join_pieces("Hal@@ lo", "@@") returns "Hallo"."""
    if separator == SPACE:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")
    return (pieces + " ").replace(separator + " ", "").rstrip(" ")


def to_text(data: str, separator: str, language: str | None) -> Callable[[str], str]:
    """Return a function that converts subword units to plain text.

    language: the language for the Moses detokeniser, if the data folder contains no prepare.json.
    """
    if not Path(data).is_dir():
        raise InputError(f"{data}: there is no such folder; give the path of the data folder")
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
    """The statistics that fairseq-generate prints at the end of a run."""

    sentences: int
    pieces: int
    seconds: float
    sentences_per_second: float
    pieces_per_second: float


def speed(paths: Sequence[str]) -> Decoding:
    """Return the speed of a run of fairseq-generate.

    Several logs are treated as shards of one run. Their sentence counts are added, and the time is
    that of the slowest shard.
    """
    refuse_repeated(paths)
    runs = [translated(path) for path in paths]
    [whole, *others] = runs
    if others:
        sentences, pieces = sum(run.sentences for run in runs), sum(run.pieces for run in runs)
        seconds = max(run.seconds for run in runs)
        if not seconds:
            raise InputError(
                f"{paths[0]}: the run took 0.0 seconds; translate more sentences to measure speed"
            )
        whole = Run(sentences, pieces, seconds, sentences / seconds, pieces / seconds)
    return Decoding(**{name: value for name, value in whole._asdict().items() if name != "pieces"})


def refuse_repeated(paths: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for path in paths if len(paths) > 1 else ():
        for line in read_lines(path):
            if found := TRANSLATION.match(line):
                other = first.setdefault(found[1], path)
                if other != path:
                    raise InputError(
                        f"{path}: sentence {found[1]} also occurs in {other}; to report the speed, "
                        "use the logs of a single run"
                    )


def translated(path: str) -> Run:
    """Return the statistics in a log; raise an InputError unless it contains exactly one run."""
    found = [match for line in read_lines(path) if (match := TRANSLATED.search(line))]
    if len(found) != 1:
        raise InputError(
            f"{path}: the log contains {len(found)} lines 'Translated ... sentences'; use the "
            "complete log of a single run of fairseq-generate"
        )
    sentences, pieces, *rest = found[0].groups()
    return Run(*(int(count.replace(",", "")) for count in (sentences, pieces)), *map(float, rest))
