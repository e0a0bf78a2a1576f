"""Join the results in one or several files of posattn probe, and reject files that do not match."""

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

Hits = NDArray[np.float64]  # runs x sentences: share of seeds with the correct label
OF_TREEBANK = {"sha256": "files", "first": "--first", "rank": "--rank"}


@dataclass(frozen=True)
class Row:
    """A table row: a system's layer (trained or untrained), embeddings, or vectors from a file.

    trees: the kinds of trees that the model read, for instance "gold; parsed in BShift, SOMO".
    """

    system: str
    kind: str
    layer: str
    trees: str

    @property
    def name(self) -> str:
        return row_name(self.system, self.kind, self.layer)


class Results:
    """The joined results of one or several files.

    Raises InputError if the classifiers, pooling or sentences differ, or if a model occurs twice.
    """

    def __init__(self, probes: Sequence[Probes], paths: Sequence[str]):
        self.probes = list(with_own_runs(probes))
        first = next((one for one in probes if one.accuracies), probes[0])
        self.classifier, self.pooling = first.classifier, first.pooling
        self.tasks: dict[str, ProbedTask] = {}
        for one, path in zip(self.probes, paths, strict=True):
            for key in ("classifier", "pooling") if one.accuracies else ():
                if getattr(one, key) != getattr(first, key):
                    raise InputError(
                        f"{path}: the {key} is {getattr(one, key)}, but {paths[0]} has "
                        f"{getattr(first, key)}; probe both models with the same options"
                    )
            for name, task in one.tasks.items():
                if self.tasks.setdefault(name, task) != task:
                    raise InputError(
                        f"{path}: the sentences of {name} differ from those in {paths[0]}; probe "
                        "both models on the same folder of tasks"
                    )
        refuse_other_treebanks(self.probes, paths)
        refuse_repeated(self.probes, paths)

    @cached_property
    def names(self) -> list[str]:
        """The names of the tasks, in the order of Wang et al. (2019), Table 3."""
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
        """Return a list for each run, with one result per random seed of the classifier."""
        return [run for _, run in sorted(grouped(self.cells.get(row, {}).get(task, []), "run"))]

    def hits(self, row: Row, task: str) -> Hits:
        """Return, for each run and test sentence, the share of seeds with a correct prediction."""
        test = self.tasks[task].test
        runs = self.runs(row, task)
        return np.array([np.mean([one.hits(test) for one in run], axis=0) for run in runs])

    def on_test(self, row: Row, task: str) -> list[float]:
        """Return the test accuracy of each run in %, averaged over the classifier's random seeds.

        If there is only one run, return the accuracy for each seed instead.
        """
        hits = self.hits(row, task)
        if len(hits) == 1:
            return [accuracy.test for accuracy in self.cells[row][task]]
        return [100 * float(of_run.mean()) for of_run in hits]

    def on_dev(self, row: Row, task: str) -> list[float]:
        """Return the dev accuracies, aggregated like `on_test`."""
        runs = [[accuracy.dev for accuracy in run] for run in self.runs(row, task)]
        return runs[0] if len(runs) == 1 else list(map(mean, runs))


def kinds_of_trees(accuracies: Sequence[Accuracy]) -> str:
    """Return the most frequent kind of trees, followed by other kinds and their tasks."""
    tasks = {
        kind: list(dict.fromkeys(one.task for one in same))
        for (kind,), same in grouped(accuracies, "trees")
    }
    first, *others = sorted(tasks, key=lambda kind: (-len(tasks[kind]), kind))
    return "; ".join([first, *(f"{kind} in {', '.join(tasks[kind])}" for kind in others)])


def refuse_other_treebanks(probes: Sequence[Probes], paths: Sequence[str]) -> None:
    """Raise an InputError if word probes differ in their sentences or ranks."""
    first: tuple[Treebank, str] | None = None
    for one, path in zip(probes, paths, strict=True):
        if not one.treebank:
            continue
        known, where = first = first or (one.treebank, path)
        for name, what in OF_TREEBANK.items():
            if getattr(one.treebank, name) != getattr(known, name):
                raise InputError(
                    f"{path}: words were probed with different {what} than in {where}; probe both "
                    "models with the same options"
                )


def refuse_repeated(probes: Sequence[Probes], paths: Sequence[str]) -> None:
    """Raise an InputError if a result occurs twice, because it would count as a second run."""
    seen: dict[tuple[Any, ...], str] = {}
    for one, path in zip(probes, paths, strict=True):
        for key in [
            *((a.system, a.run, a.kind, a.layer, a.task, a.seed) for a in one.accuracies),
            *((w.system, w.run, w.kind, w.layer, w.probe, w.seed) for w in one.words),
        ]:
            if key in seen:
                raise InputError(
                    f"{path}: the results of {key[0]} are also in {seen[key]}; include each model "
                    "once"
                )
            seen[key] = path


def with_own_runs(probes: Sequence[Probes]) -> Iterator[Probes]:
    """Renumber the runs across all files, so that each checkpoint of a system is a separate run."""
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
