"""Store the results of runs in a recipe, so that its tables can be rebuilt without training.

RECIPE/study/NAME.SIZE.seedN.TEST.xz contains the statistics of the main score for each sentence of
a test set, such as whether it is an exact match.
RECIPE/study/NAME.SIZE.seedN.json contains the options and data of the run, the decoding settings,
and the checksums of the references. Runs are combined in one row of a table only if they differ in
nothing but the seed, or if their records give a reason in `pooled_because`.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.runs import AGAIN, RECORD, SAME, Run, RunRecord, by_option
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import read_record
from fairseq_posattn.files.terminal import say

STUDY = "study"
References = Mapping[str, list[str]]  # test set -> the SHA-256 of each of its references
SEED = "--seed"


@dataclass(frozen=True)
class StoredRecord(RunRecord):
    """The record of a stored run.

    references: SHA-256 of each reference of each test set; missing in older records.
    translated: decoding settings, such as the beam size; missing in older records.
    signatures: for each test set, name and signature of the score whose statistics are stored.
    pooled_because: reason to combine this run with other runs of the model although they differ.
    """

    references: dict[str, list[str]] = field(default_factory=dict)
    translated: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    pooled_because: str = ""

    def choices(self) -> dict[str, list[str]]:
        translated = {name: [f"{value:g}"] for name, value in self.translated.items()}
        return {**super().choices(), **translated}


@dataclass(frozen=True)
class StoredRun(Run):
    """A stored run, of which only the record and the statistics of the main score exist.

    runs: the folder in which they are stored.
    """

    record: StoredRecord

    @property
    def file(self) -> Path:
        return self.runs / f"{self.name}.json"

    @cached_property
    def folder(self) -> Path:
        return self.runs / self.name  # it does not exist

    def scored(self, test: str) -> Path:
        path = self.runs / f"{self.name}.{test}.xz"
        if not path.exists():
            raise InputError(f"{path}: there is no such file; restore it, or leave {self.name} out")
        return path


def store_results(
    study: Path,
    runs: Sequence[tuple[Run, Mapping[str, tuple[str, str]]]],
    references: References,
    translated: Mapping[str, Mapping[str, float]],
) -> None:
    """Store the results of runs, replacing stored runs of the same name.

    runs: pairs of a run and, for each test set, the statistics and signature of the main score.
    translated: decoding settings, by model size.
    """
    study.mkdir(exist_ok=True)
    for run, statistics in runs:
        record = json.loads((run.folder / RECORD).read_text(encoding="utf-8"))
        record["references"] = references
        record["translated"] = translated.get(run.record.size, {})
        record["signatures"] = {test: signature for test, (_, signature) in statistics.items()}
        path = study / f"{run.name}.json"
        with locked(study / run.name, wait=True):
            path.unlink(missing_ok=True)  # so an interruption cannot leave a wrong record
            for test, (content, _) in statistics.items():
                with replaced_whole(study / f"{run.name}.{test}.xz") as partial:
                    partial.write_bytes(lzma.compress(content.encode(), preset=9))
            with written_whole(path) as file:
                json.dump(record, file, indent=1)


def stored_runs(study: Path) -> list[StoredRun]:
    """Return the stored runs, sorted by model and seed.

    Raises InputError if no run is stored, or if a record is invalid.
    """
    paths = sorted(study.glob("*.json"))
    if not paths:
        raise InputError(f"{study}: no run is stored here; store runs with table.sh --keep")
    found = [StoredRun(study, read_record(StoredRecord, path, AGAIN)) for path in paths]
    for run, path in zip(found, paths, strict=True):
        if run.file != path:
            raise InputError(
                f"{path}: this file contains the record of {run.name}; rename it to "
                f"{run.file.name}, or delete it if it is a copy"
            )
        seed = [str(run.record.seed)]
        if by_option(run.record.options).get(SEED, seed) != seed:
            raise InputError(
                f"{path}: seed is {seed[0]}, but the options contain another {SEED}; {AGAIN}"
            )
    return sorted(found, key=lambda run: (run.record.system, run.record.seed))


def check_pools(runs: Sequence[StoredRun]) -> None:
    """Raise an InputError if runs of one model differ in anything but the seed.

    Runs whose record gives a reason in `pooled_because` are not checked.
    """
    first: dict[str, StoredRun] = {}
    for run in runs:
        if run.record.pooled_because:
            continue
        other = first.setdefault(run.record.system, run)
        if (found := run.record.difference(other.record)) != SAME:
            raise InputError(
                f"{run.file} cannot be pooled with {other.name} ({found}); delete one of them, "
                'choose with --seeds, or add "pooled_because": "REASON" to the file'
            )


def check_references(runs: Sequence[StoredRun], now: References) -> None:
    """Raise an InputError if the references have changed since a run was stored.

    If a record contains no checksums, a message is printed instead.
    """
    for run in runs:
        for test, checksums in run.record.references.items():
            if now.get(test) and checksums != now[test]:  # posattn score reports missing files
                raise InputError(
                    f"{run.file}: the references of {test} have changed since {run.name} was "
                    "stored; prepare the original texts again, or store new runs with table.sh "
                    "--keep"
                )
    if without := [run for run in runs if not now.keys() <= run.record.references.keys()]:
        say(
            f"{without[0].file} and {len(without) - 1} others contain no checksums of references, "
            "so it is unknown whether the references have changed since"
        )


def check_signatures(runs: Sequence[StoredRun], signature: Callable[[StoredRun, str], str]) -> None:
    """Raise an InputError if a run's statistics belong to a score other than the recipe's.

    signature: function that returns the signature of the recipe's main score.
    """
    now: dict[tuple[str, str], str] = {}
    for run in runs:
        for test in {**run.record.references, **run.record.signatures}:
            stored = run.record.signatures.get(test, "an unknown score")
            of_trees = (test, run.record.test_trees)  # data of other trees may be lowercased
            if of_trees not in now:
                now[of_trees] = signature(run, test)
            if stored != now[of_trees]:
                raise InputError(
                    f"{run.file} contains statistics of {test} for {stored}, but the recipe "
                    f"selects {now[of_trees]}; change its [evaluation], or store new runs with "
                    "table.sh --keep"
                )


def rows_of(runs: Sequence[StoredRun], known: Sequence[Row]) -> Iterator[Row]:
    """Yield a `[[models]]` entry per stored model: those of the recipe first, then new ones."""
    systems = {run.record.system: run.record for run in runs}
    for row in known:
        if systems.pop(row.system, None):
            yield row
    for record in systems.values():
        yield Row(record.name, record.size)
