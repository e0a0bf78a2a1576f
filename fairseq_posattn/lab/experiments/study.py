"""Keep the translations of runs in a recipe, so that its tables can be made without a training.

RECIPE/study/NAME.SIZE.seedN.TEST.xz has what a run wrote for a test set, and
RECIPE/study/NAME.SIZE.seedN.json from what the run was made, how it translated, and the checksums
of the references. Runs are pooled in one row only if they differ in nothing but the seed, or if
`pooled_because` in the record says why they belong together.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.records import read_record
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.experiments.runs import AGAIN, RECORD, SAME, Run, RunRecord, by_option

STUDY = "study"
References = Mapping[str, list[str]]  # test set -> the SHA-256 of each of its references
SEED = "--seed"


@dataclass(frozen=True)
class KeptRecord(RunRecord):
    """This says what a run that is kept was made from.

    references: the SHA-256 of each reference of each test set; records of older versions lack it.
    translated: how it translated, such as the beam; records of older versions lack it.
    pooled_because: why it belongs to the other runs of its name, although it differs from them.
    """

    references: dict[str, list[str]] = field(default_factory=dict)
    translated: dict[str, float] = field(default_factory=dict)
    pooled_because: str = ""

    def choices(self) -> dict[str, list[str]]:
        translated = {name: [f"{value:g}"] for name, value in self.translated.items()}
        return {**super().choices(), **translated}


@dataclass(frozen=True)
class Kept(Run):
    """Only the translations of this run are there.

    runs: the logs of its scores are written below this folder.
    """

    record: KeptRecord
    study: Path

    @property
    def file(self) -> Path:
        """Return the path of the record."""
        return self.study / f"{self.name}.json"

    @cached_property
    def folder(self) -> Path:
        return self.runs / self.name

    def translations(self, test: str) -> Path:
        path = self.study / f"{self.name}.{test}.xz"
        if not path.exists():
            raise InputError(f"{path}: there is no such file, so {self.name} cannot be scored")
        return path


def keep(
    study: Path,
    runs: Sequence[Run],
    tests: Sequence[str],
    references: References | None = None,
    translated: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Keep what the runs wrote for the test sets; an earlier run of one name gives way.

    translated: how the runs of each size translated.
    """
    study.mkdir(exist_ok=True)
    for run in runs:
        record = json.loads((run.folder / RECORD).read_text(encoding="utf-8"))
        record["references"] = dict(references or {})
        record["translated"] = dict((translated or {}).get(run.record.size, {}))
        packed = {
            test: lzma.compress(run.translations(test).read_bytes(), preset=9) for test in tests
        }
        path = study / f"{run.name}.json"
        path.unlink(missing_ok=True)  # so no kill leaves a record beside others' translations
        for test, content in packed.items():
            with replaced_whole(study / f"{run.name}.{test}.xz") as partial:
                partial.write_bytes(content)
        with written_whole(path) as file:
            json.dump(record, file, indent=1)


def kept(study: Path, logs: Path) -> list[Kept]:
    """Return the runs that are kept, by their names."""
    paths = sorted(study.glob("*.json"))
    if not paths:
        raise InputError(f"{study}: no run is kept there; keep some by table.sh --keep")
    found = [Kept(logs, read_record(KeptRecord, path, AGAIN), study) for path in paths]
    for run, path in zip(found, paths, strict=True):
        if run.file != path:
            raise InputError(
                f"{path}: this is the record of {run.name}, which would count twice; delete it, or "
                f"rename it to {run.file.name}"
            )
        seed = [str(run.record.seed)]
        if by_option(run.record.options).get(SEED, seed) != seed:
            raise InputError(
                f"{path}: seed is {seed[0]}, but the options have another {SEED}; {AGAIN}"
            )
    return sorted(found, key=lambda run: (run.record.system, run.record.seed))


def check_pools(runs: Sequence[Kept]) -> None:
    """Refuse runs of one name that differ in more than the seed, unless their records say why they
    belong together."""
    first: dict[str, Kept] = {}
    for run in runs:
        if run.record.pooled_because:
            continue
        other = first.setdefault(run.record.system, run)
        if (found := run.record.difference(other.record)) != SAME:
            raise InputError(
                f"{run.file} does not belong to {other.name} ({found}); delete one of them, choose "
                'by --seeds, or write into it: "pooled_because": "REASON"'
            )


def check_references(runs: Sequence[Kept], now: References) -> None:
    """Refuse runs that were kept with other references; say whose references nobody knows."""
    for run in runs:
        for test, checksums in run.record.references.items():
            if now.get(test) and checksums != now[test]:  # score names a missing file
                raise InputError(
                    f"{run.file}: the references of {test} have changed since {run.name} was kept; "
                    "prepare the texts of then, or keep new runs by table.sh --keep"
                )
    if without := [run for run in runs if not now.keys() <= run.record.references.keys()]:
        say(
            f"{without[0].file} and {len(without) - 1} others lack checksums of the references, so "
            "nobody knows whether these have changed since"
        )


def rows_of(runs: Sequence[Kept], known: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each model of the runs: those that the recipe has, and then others."""
    systems = {run.record.system: run.record for run in runs}
    for row in known:
        if systems.pop(row.system, None):
            yield row
    for record in systems.values():
        yield Row(record.name, record.size)
