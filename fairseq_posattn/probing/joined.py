"""Join the results in one or several files of posattn probe, and reject files that do not match."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.probing.results import (
    Accuracy,
    ProbedTask,
    Probes,
    WordProbe,
    grouped,
    row_name,
)
from fairseq_posattn.probing.tasks import TASKS

Hits = NDArray[np.float64]  # runs x sentences: share of seeds with the correct label
OF_TREEBANK = {"sha256": "their files", "first": "--first", "rank": "--rank"}


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
                        f"{path}: the {key} is {getattr(one, key)}, but {getattr(first, key)} in "
                        f"{paths[probes.index(first)]}; probe both models with the same options"
                    )
            for name, task in one.tasks.items():
                if self.tasks.setdefault(name, task) != task:
                    raise InputError(
                        f"{path}: the sentences of {name} differ from those in the first file with "
                        "this task; probe both models on the same folder of tasks"
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
    pairs = zip(probes, paths, strict=True)
    found = [(one.treebank, path) for one, path in pairs if one.treebank]
    for treebank, path in found[1:]:
        first, where = found[0]
        for name, what in OF_TREEBANK.items():
            if getattr(treebank, name) != getattr(first, name):
                raise InputError(
                    f"{path}: the word probes differ in {what} from those in {where}; probe both "
                    "models with the same options"
                )


def refuse_repeated(probes: Sequence[Probes], paths: Sequence[str]) -> None:
    """Raise an InputError if a result occurs twice, because it would count as a second run."""
    seen: dict[tuple[Any, ...], str] = {}
    for one, path in zip(probes, paths, strict=True):
        found: list[tuple[Accuracy | WordProbe, str]] = [(a, a.task) for a in one.accuracies]
        found += [(word, word.probe) for word in one.words]
        for record, name in found:
            key = record.system, record.run, record.kind, record.layer, name, record.seed
            if key in seen:
                raise InputError(
                    f"{path}: the results of {record.system} are also in {seen[key]}; include each "
                    "model once"
                )
            seen[key] = path


def with_own_runs(probes: Sequence[Probes]) -> Iterator[Probes]:
    """Renumber the runs across all files, so that each checkpoint of a system is a separate run."""
    numbers: dict[str, dict[tuple[Any, ...], int]] = defaultdict(dict)
    for file, one in enumerate(probes):
        parts: dict[str, Any] = {}
        for name in ("accuracies", "heads", "offsets", "relations", "words"):
            parts[name] = []
            for record in getattr(one, name):
                runs = numbers[record.system]
                key = (record.model,) if record.model else (file, record.run)
                run = runs.setdefault(key, len(runs))
                parts[name].append(replace(record, run=run))
        yield replace(one, **parts)
