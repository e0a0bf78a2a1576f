"""The scored systems of a report, as posattn-score wrote them: read, checked, put together by test
set."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from fairseq_posattn.evaluation.report_shape import EXAMPLE, SYSTEM, first_fault, known_part
from fairseq_posattn.files import InputError, read_json_value
from fairseq_posattn.io.visible import visible, visible_strings
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.drawing import depths

VERSION = 1
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
    if fault := first_fault(about) or next(example_faults(about.get("examples", [])), None):
        raise InputError(f"{path}: {fault}; {AGAIN}")
    shown = visible_strings(known_part(about, SYSTEM))
    return System(str(path), shown["system"] or visible(Path(path).stem), shown)


def read_examples(path: str) -> list[dict]:
    """The examples in a file of posattn-examples, or in the JSON of a scored system."""
    remedy = "make it again with posattn-examples"
    found = read_json_value(path, remedy)
    if isinstance(found, dict):
        found = found.get("examples")
    if not isinstance(found, list):
        raise InputError(f"{path}: no list of examples; make it with posattn-examples")
    if fault := first_fault(found, [EXAMPLE]) or next(example_faults(found), None):
        raise InputError(f"{path}: {fault}; {remedy}")
    return known_part(found, [EXAMPLE])


def by_test(systems: Sequence[System]) -> dict[str, list[System]]:
    """Test sets in the order in which they come first."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        groups.setdefault(system.test, []).append(system)
    return groups


def example_faults(examples: Sequence[dict]) -> Iterator[str]:
    for k, example in enumerate(examples):
        if fault := example_fault(example):
            yield f"examples[{k}]: {fault}"


def example_fault(example: dict) -> str | None:
    words, parents = example["words"], example["parents"]
    for key in ("parents", "depths", "relations"):
        if example.get(key) is not None and len(example[key]) != len(words):
            return f"{len(example[key])} {key} for {len(words)} words"
    if parents is not None and (fault := tree_fault(parents)):
        return fault.what
    if parents is not None and example.get("depths") not in (None, depths(parents)):
        return "the depths are not those of the tree"
    return attention_fault(example["attention"], len(example["pieces"]))


def attention_fault(attention: dict, pieces: int) -> str | None:
    sizes = [attention[key] for key in ("layers", "heads", "queries", "keys")]
    if min(sizes) < 1 or sizes[2:] != [pieces, pieces]:
        return f"attention of {' x '.join(map(str, sizes))} for {pieces} pieces"
    try:
        weights = base64.b64decode(attention["weights"], validate=True)
    except (binascii.Error, ValueError):
        return "the weights are not base64"
    if len(weights) != prod(sizes):
        return f"{len(weights)} weights instead of {prod(sizes)}"
    return None
