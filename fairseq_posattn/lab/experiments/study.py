"""Keep the translations of runs in a recipe, so that its tables can be made without a training.

RECIPE/study/NAME.SIZE.seedN.TEST.xz has what a run wrote for a test set, and
RECIPE/study/NAME.SIZE.seedN.json from what the run was made.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.records import read_record
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.experiments.runs import AGAIN, RECORD, Run, RunRecord

STUDY = "study"


@dataclass(frozen=True)
class Kept(Run):
    """Only the translations of this run are there.

    runs: the logs of its scores are written below this folder.
    """

    study: Path

    @cached_property
    def folder(self) -> Path:
        return self.runs / self.name

    def translations(self, test: str) -> Path:
        path = self.study / f"{self.name}.{test}.xz"
        if not path.exists():
            raise InputError(f"{path}: there is no such file, so {self.name} cannot be scored")
        return path


def keep(study: Path, runs: Sequence[Run], tests: Sequence[str]) -> None:
    """Keep what the runs wrote for the test sets; an earlier run of one name gives way."""
    study.mkdir(exist_ok=True)
    for run in runs:
        record = (run.folder / RECORD).read_text(encoding="utf-8")
        packed = {
            test: lzma.compress(run.translations(test).read_bytes(), preset=9) for test in tests
        }
        path = study / f"{run.name}.json"
        path.unlink(missing_ok=True)  # so no kill leaves a record beside others' translations
        for test, content in packed.items():
            with replaced_whole(study / f"{run.name}.{test}.xz") as partial:
                partial.write_bytes(content)
        with written_whole(path) as file:
            file.write(record)


def kept(study: Path, logs: Path) -> list[Kept]:
    """Return the runs that are kept, by their names."""
    paths = sorted(study.glob("*.json"))
    if not paths:
        raise InputError(f"{study}: no run is kept there; keep some by table.sh --keep")
    found = [Kept(logs, read_record(RunRecord, path, AGAIN), study) for path in paths]
    return sorted(found, key=lambda run: (run.record.system, run.record.seed))


def rows_of(runs: Sequence[Kept], known: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each model of the runs: those that the recipe has, and then others."""
    systems = {run.record.system: run.record for run in runs}
    for row in known:
        if systems.pop(row.system, None):
            yield row
    for record in systems.values():
        yield Row(record.name, record.size)
