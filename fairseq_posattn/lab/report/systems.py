"""Read and check the scored systems of a report, and group them by test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json_value
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.records import as_document, as_record
from fairseq_posattn.io.visible import visible, visible_strings
from fairseq_posattn.lab.report.several_runs import one_system
from fairseq_posattn.lab.scoring.score_record import VERSION, ScoredSystem

AGAIN = "write it again with posattn-score"


@dataclass(frozen=True)
class System:
    """Holds one system on one test set, from a file or from one for each of its runs."""

    path: str
    name: str
    about: dict[str, Any]

    @property
    def test(self) -> str:
        """Return the name of the test set."""
        return self.about["test"]

    @property
    def runs(self) -> int:
        """Return how many runs of the system were scored."""
        return self.about.get("runs", 1)

    @property
    def scores(self) -> dict[str, dict]:
        """Return the scores by their names."""
        return self.about["scores"]

    @property
    def baseline(self) -> dict[str, Any] | None:
        """Return the comparison with a baseline, or None."""
        return self.about.get("baseline")

    @property
    def training(self) -> dict[str, Any]:
        """Return how the system was trained, which may be empty."""
        return self.about.get("training", {})

    @property
    def examples(self) -> list[dict]:
        """Return the examples of the system, which may be none."""
        return self.about.get("examples", [])

    def buckets(self, kind: str) -> list[dict]:
        """Return the buckets of one kind."""
        return self.about.get("buckets", {}).get(kind, [])

    def words(self, kind: str) -> list[dict]:
        """Return the groups of words of one kind."""
        return self.about.get("words", {}).get(kind, [])

    def sentences_per_second(self, kind: str) -> float | None:
        """Return the speed of one kind, or None."""
        return self.about.get("speed", {}).get(kind, {}).get("sentences_per_second")


def read_systems(paths: Sequence[str | Path]) -> list[System]:
    """Return all systems in the order of the files.

    Several files of one name and test set are the runs of one system, with several seeds.
    """
    groups: dict[tuple[str, str], list[System]] = {}
    for system in map(read_system, paths):
        groups.setdefault((system.name, system.test), []).append(system)
    return [runs[0] if len(runs) == 1 else joined(runs) for runs in groups.values()]


def joined(runs: Sequence[System]) -> System:
    """Return one system for several runs, and tell the user that it was made of them."""
    paths, about = [run.path for run in runs], [run.about for run in runs]
    if again := next((path for path in paths if paths.count(path) > 1), None):
        raise InputError(f"{again}: this file is named twice; name it once")
    first = runs[0]
    test = f" on {first.test}" if first.test else ""
    say(f"{first.name}{test}: {len(runs)} files are taken for runs of one system")
    return System(first.path, first.name, one_system(about, paths))


def read_system(path: str | Path) -> System:
    """Return the system in a file, after a check that this release can read it."""
    about = read_json_value(path, AGAIN)
    version = about.get("version", VERSION) if isinstance(about, dict) else VERSION
    if version != VERSION:
        raise InputError(
            f"{path}: the file has version {version!r}, not {VERSION}; {AGAIN} of this release"
        )
    shown = visible_strings(as_document(as_record(ScoredSystem, about, str(path), AGAIN)))
    return System(str(path), shown["system"] or visible(Path(path).stem), shown)


def by_test(systems: Sequence[System]) -> dict[str, list[System]]:
    """Return the systems of each test set, in the order in which the test sets come first."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        groups.setdefault(system.test, []).append(system)
    return groups
