"""Read and validate the scored systems of a report, and look up their results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json_value
from fairseq_posattn.files.records import as_record, option
from fairseq_posattn.files.terminal import visible, visible_strings
from fairseq_posattn.scoring.score_record import (
    VERSION,
    Bucket,
    Difference,
    Losses,
    Ngrams,
    ScoredSystem,
    Subset,
    WordGroup,
)

TITLE = "Translation quality"
AGAIN = "write it again with posattn score"


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """The options of posattn report."""

    command: ClassVar = "posattn report"
    systems: list[str] = option(
        "files written by posattn score --json, one per system", metavar="JSON"
    )
    out: Path = option("write the report to this file (.html)", required=True)
    probes: list[str] | None = option(
        "add the results from these files, which posattn probe --json has written",
        None,
        metavar="JSON",
    )
    title: str = option("title of the report (default: %(default)s)", TITLE)


def read_systems(paths: Sequence[str | Path]) -> list[ScoredSystem]:
    """Read all systems, in the order of the files.

    Raises InputError if two files contain the same system and test set.
    """
    found: dict[tuple[str, str], tuple[str, ScoredSystem]] = {}
    for path in map(str, paths):
        system = read_system(path)
        key = system.system, system.test
        if key in found:
            other = found[key][0]
            if other == path:
                raise InputError(f"{path} is given twice; give it once")
            test = f" on {system.test}" if system.test else ""
            raise InputError(
                f"{path}: {system.system}{test} is also in {other}; score all runs of a system "
                "together (posattn score RUN1 RUN2 ... --json FILE), or give each its own --name"
            )
        found[key] = path, system
    return [system for _, system in found.values()]


def read_system(path: str | Path) -> ScoredSystem:
    """Read a scored system from a JSON file written by posattn score.

    If the file contains no system name, the name of the file is used. Invisible characters are
    escaped. Raises InputError if the file has a different format version.
    """
    about = read_json_value(path, AGAIN)
    version = about.get("version", VERSION) if isinstance(about, dict) else VERSION
    if version != VERSION:
        raise InputError(
            f"{path} has format version {version!r}, but this release reads {VERSION}; {AGAIN}"
        )
    found: ScoredSystem = visible_strings(as_record(ScoredSystem, about, str(path), AGAIN))
    return replace(found, system=found.system or visible(Path(path).stem))


def by_test(systems: Iterable[ScoredSystem]) -> dict[str, list[ScoredSystem]]:
    """Group systems by test set, in order of first occurrence."""
    groups: dict[str, list[ScoredSystem]] = {}
    for system in systems:
        groups.setdefault(system.test, []).append(system)
    return groups


def differences_of(system: ScoredSystem) -> dict[str, Difference]:
    """Return the difference of each score from the baseline; empty if there is no baseline."""
    return (system.baseline and system.baseline.scores) or {}


def gaps_of(system: ScoredSystem) -> list[Ngrams]:
    return (system.baseline and system.baseline.ngrams) or []


def buckets_of(system: ScoredSystem, kind: str) -> list[Bucket]:
    return (system.buckets or {}).get(kind, [])


def labels_of(system: ScoredSystem, kind: str) -> list[Subset]:
    found = (system.subsets or {}).get(kind)
    return found.labels if found else []


def words_of(system: ScoredSystem, kind: str) -> list[WordGroup]:
    return (system.words or {}).get(kind, [])


def curve_of(system: ScoredSystem) -> list[Losses]:
    return (system.training and system.training.curve) or []


def speed_of(system: ScoredSystem, kind: str) -> float | None:
    """Return the translation speed in sentences per second, or None if unknown."""
    decoding = system.speed and getattr(system.speed, kind)
    return decoding.sentences_per_second if decoding else None
