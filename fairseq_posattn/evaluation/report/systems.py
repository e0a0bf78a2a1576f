"""The scored systems of a report, as posattn-score wrote them: read, checked, put together by test
set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.score_record import VERSION, ScoredSystem
from fairseq_posattn.io.files import read_json_value
from fairseq_posattn.io.records import as_document, as_record
from fairseq_posattn.io.visible import visible, visible_strings

AGAIN = "write it again with posattn-score"


@dataclass(frozen=True)
class System:
    """One file: a system on one test set."""

    path: str
    name: str
    about: dict[str, Any]

    @property
    def test(self) -> str:
        return self.about["test"]

    @property
    def scores(self) -> dict[str, dict]:
        return self.about["scores"]

    @property
    def baseline(self) -> dict[str, Any] | None:
        return self.about.get("baseline")

    @property
    def training(self) -> dict[str, Any]:
        return self.about.get("training", {})

    @property
    def examples(self) -> list[dict]:
        return self.about.get("examples", [])

    def buckets(self, kind: str) -> list[dict]:
        return self.about.get("buckets", {}).get(kind, [])

    def sentences_per_second(self, kind: str) -> float | None:
        return self.about.get("speed", {}).get(kind, {}).get("sentences_per_second")


def read_systems(paths: Sequence[str | Path]) -> list[System]:
    """All systems, in the order of the files; each may stand once on each test set."""
    systems = [read_system(path) for path in paths]
    seen: dict[tuple[str, str], str] = {}
    for system in systems:
        key = system.name, system.test
        if key in seen:
            raise InputError(
                f"{system.path}: the system '{system.name}' on the test set '{system.test}' again, "
                f"after {seen[key]}; name one of them otherwise (posattn-score --name)"
            )
        seen[key] = system.path
    return systems


def read_system(path: str | Path) -> System:
    about = read_json_value(path, AGAIN)
    version = about.get("version", VERSION) if isinstance(about, dict) else VERSION
    if version != VERSION:
        raise InputError(f"{path}: of version {version!r}, not {VERSION}; {AGAIN} of this release")
    shown = visible_strings(as_document(as_record(ScoredSystem, about, str(path), AGAIN)))
    return System(str(path), shown["system"] or visible(Path(path).stem), shown)


def by_test(systems: Sequence[System]) -> dict[str, list[System]]:
    """Test sets in the order in which they come first."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        groups.setdefault(system.test, []).append(system)
    return groups
