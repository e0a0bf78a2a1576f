"""Join the accuracies of one file of posattn probe or several, and refuse what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.probing.results import (
    Accuracy,
    ProbedTask,
    Probes,
    Treebank,
    grouped,
    row_name,
)
from fairseq_posattn.lab.probing.tasks import TASKS

Hits = NDArray[np.float64]  # runs x sentences: how often the label was found, over the seeds
OF_TREEBANK = {"sha256": "files", "first": "--first", "rank": "--rank"}


@dataclass(frozen=True)
class Row:
    """A row is a system, or its untrained twin or embeddings, with one layer.

    trees: the kinds that its figures have, such as: gold; parsed in BShift, SOMO.
    """

    system: str
    kind: str
    layer: str
    trees: str

    @property
    def name(self) -> str:
        return row_name(self.system, self.kind, self.layer)


class Results:
    """These are the results of one file or several."""

    def __init__(self, probes: Sequence[Probes], paths: Sequence[str]):
        self.probes = list(with_own_runs(probes))
        first = next((one for one in probes if one.accuracies), probes[0])
        self.classifier, self.pooling = first.classifier, first.pooling
        self.tasks: dict[str, ProbedTask] = {}
        for one, path in zip(self.probes, paths, strict=True):
            for key in ("classifier", "pooling") if one.accuracies else ():
                if getattr(one, key) != getattr(first, key):
                    raise InputError(
                        f"{path}: the {key} is {getattr(one, key)}, but in {paths[0]} it is "
                        f"{getattr(first, key)}; probe both in the same way"
                    )
            for name, task in one.tasks.items():
                if self.tasks.setdefault(name, task) != task:
                    raise InputError(
                        f"{path}: {name} was made of other sentences than in {paths[0]}; probe "
                        "both on the same folder of tasks"
                    )
        refuse_other_treebanks(self.probes, paths)
        refuse_repeated(self.probes, paths)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the tasks, in the order of the published table."""
        return [name for name in TASKS if name in self.tasks]

    @cached_property
    def cells(self) -> dict[Row, dict[str, list[Accuracy]]]:
        found: dict[Row, dict[str, list[Accuracy]]] = {}
        every = [accuracy for one in self.probes for accuracy in one.accuracies]
        for (system, kind, layer), same in grouped(every, "system", "kind", "layer"):
            row = Row(system, kind, layer, kinds_of_trees(same))
            found[row] = {task: of_task for (task,), of_task in grouped(same, "task")}
        return found

    def runs(self, row: Row, task: str) -> list[list[Accuracy]]:
        """Return the accuracies of each run, over the seeds of the classifier."""
        return [run for _, run in sorted(grouped(self.cells.get(row, {}).get(task, []), "run"))]

    def hits(self, row: Row, task: str) -> Hits:
        """Return which test sentences of a task were right, in the mean over the seeds."""
        test = self.tasks[task].test
        runs = self.runs(row, task)
        return np.array([np.mean([one.hits(test) for one in run], axis=0) for run in runs])

    def on_test(self, row: Row, task: str) -> list[float]:
        """Return the accuracy of each run, the mean over the seeds of the classifier, in %.

        Of a single run, those of the seeds are returned.
        """
        hits = self.hits(row, task)
        if len(hits) == 1:
            return [accuracy.test for accuracy in self.cells[row][task]]
        return [100 * float(of_run.mean()) for of_run in hits]

    def on_dev(self, row: Row, task: str) -> list[float]:
        """Return the accuracies on dev in the same way."""
        runs = [[accuracy.dev for accuracy in run] for run in self.runs(row, task)]
        return runs[0] if len(runs) == 1 else list(map(mean, runs))


def kinds_of_trees(accuracies: Sequence[Accuracy]) -> str:
    """Return the kinds of trees that figures have: those of most tasks first, then the others with
    their tasks."""
    tasks = {
        kind: list(dict.fromkeys(one.task for one in same))
        for (kind,), same in grouped(accuracies, "trees")
    }
    first, *others = sorted(tasks, key=lambda kind: (-len(tasks[kind]), kind))
    return "; ".join([first, *(f"{kind} in {', '.join(tasks[kind])}" for kind in others)])


def refuse_other_treebanks(probes: Sequence[Probes], paths: Sequence[str]) -> None:
    """Refuse probes of words that were trained or tested on other sentences, or of other rank."""
    first: tuple[Treebank, str] | None = None
    for one, path in zip(probes, paths, strict=True):
        if not one.treebank:
            continue
        known, where = first = first or (one.treebank, path)
        for name, what in OF_TREEBANK.items():
            if getattr(one.treebank, name) != getattr(known, name):
                raise InputError(
                    f"{path}: its words were probed with other {what} than those of {where}; "
                    "probe both in the same way"
                )


def refuse_repeated(probes: Sequence[Probes], paths: Sequence[str]) -> None:
    """Refuse figures that stand in the files twice, which would count as another run."""
    seen: dict[tuple[Any, ...], str] = {}
    for one, path in zip(probes, paths, strict=True):
        for key in [
            *((a.system, a.run, a.kind, a.layer, a.task, a.seed) for a in one.accuracies),
            *((w.system, w.run, w.kind, w.layer, w.probe, w.seed) for w in one.words),
        ]:
            if key in seen:
                raise InputError(
                    f"{path}: the figures of {key[0]} stand in {seen[key]}, too; name each model "
                    "once"
                )
            seen[key] = path


def with_own_runs(probes: Sequence[Probes]) -> Iterator[Probes]:
    """Yield files in which each checkpoint of a system is a run of its own, in all files."""
    numbers: dict[str, dict[tuple[Any, ...], int]] = {}

    def number(record: Any, file: int) -> int:
        runs = numbers.setdefault(record.system, {})
        key = (record.model,) if record.model else (file, record.run)
        return runs.setdefault(key, len(runs))

    for file, one in enumerate(probes):
        parts: dict[str, Any] = {
            name: [replace(record, run=number(record, file)) for record in getattr(one, name)]
            for name in ("accuracies", "heads", "offsets", "relations", "words")
        }
        yield replace(one, **parts)
