"""Write the accuracies of probes as tables like the published one, with what they depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.probing.results import (
    TRAINED,
    UNTRAINED,
    Accuracy,
    ProbedTask,
    Probes,
    row_name,
)
from fairseq_posattn.lab.probing.tasks import GROUPS, SYSTEMS, TASKS
from fairseq_posattn.lab.probing.word_tables import word_tables
from fairseq_posattn.lab.scoring.cells import NONE
from fairseq_posattn.lab.scoring.plain_tables import Figures, Table
from fairseq_posattn.lab.scoring.statistics import Estimate, resampled_means

SAMPLES, SEED = 1000, 12345
TOLD = " †"
Hits = NDArray[np.float64]  # runs x sentences: how often the label was found, over the seeds


@dataclass(frozen=True)
class Row:
    """A row is a system, or its untrained twin or embeddings, with one layer."""

    system: str
    kind: str
    layer: str
    trees: str

    @property
    def name(self) -> str:
        """Return how the table calls the row."""
        return row_name(self.system, self.kind, self.layer)


class Results:
    """These are the results of one file or several."""

    def __init__(self, probes: Sequence[Probes], paths: Sequence[str]):
        probes = list(with_own_runs(probes))
        pairs = list(zip(probes, paths, strict=True))
        first = next((one for one in probes if one.accuracies), probes[0])
        self.tasks: dict[str, ProbedTask] = {}
        for one, path in pairs:
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
        self.classifier, self.pooling, self.probes = first.classifier, first.pooling, probes
        self.accuracies = [accuracy for one in probes for accuracy in one.accuracies]
        refuse_other_treebanks(pairs)
        refuse_repeated(pairs)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the tasks, in the order of the published table."""
        return [name for name in TASKS if name in self.tasks]

    @cached_property
    def cells(self) -> dict[Row, dict[str, list[Accuracy]]]:
        """Return the accuracies of each row, by tasks."""
        found: dict[Row, dict[str, list[Accuracy]]] = {}
        trees: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        for one in self.accuracies:
            tasks = trees.setdefault((one.system, one.kind, one.layer), {})
            tasks.setdefault(one.trees, [])
            if one.task not in tasks[one.trees]:
                tasks[one.trees].append(one.task)
        for one in self.accuracies:
            place = one.system, one.kind, one.layer
            row = Row(*place, of_which_tasks(trees[place]))
            found.setdefault(row, {}).setdefault(one.task, []).append(one)
        return found

    def hits(self, row: Row, task: str) -> Hits:
        """Return which test sentences of a task were right, in the mean over the seeds."""
        runs: dict[int, list[Hits]] = {}
        for accuracy in self.cells.get(row, {}).get(task, []):
            runs.setdefault(accuracy.run, []).append(accuracy.hits(self.tasks[task].test))
        return np.array([np.mean(of_run, axis=0) for _, of_run in sorted(runs.items())])

    def on_dev(self, row: Row, task: str) -> list[float]:
        """Return the accuracies on dev in the same way."""
        runs: dict[int, list[float]] = {}
        for accuracy in self.cells.get(row, {}).get(task, []):
            runs.setdefault(accuracy.run, []).append(accuracy.dev)
        if len(runs) == 1:
            return next(iter(runs.values()))
        return [mean(of_run) for _, of_run in sorted(runs.items())]

    def of_runs(self, row: Row, task: str) -> list[float]:
        """Return the accuracy of each run, the mean over the seeds of the classifier, in %.

        Of a single run, those of the seeds are returned.
        """
        hits = self.hits(row, task)
        if len(hits) == 1:
            return [accuracy.test for accuracy in self.cells[row][task]]
        return [100 * float(of_run.mean()) for of_run in hits]


def of_which_tasks(trees: Mapping[str, Sequence[str]]) -> str:
    """Return the kinds of trees that a row's figures have: gold; parsed in BShift, SOMO."""
    kinds = sorted(trees, key=lambda kind: (-len(trees[kind]), kind))
    if not kinds:
        return NONE
    return "; ".join([kinds[0], *(f"{kind} in {', '.join(trees[kind])}" for kind in kinds[1:])])


def refuse_other_treebanks(pairs: Sequence[tuple[Probes, str]]) -> None:
    """Refuse probes of words that were trained or tested on other sentences, or of other rank."""
    banks = [(one.treebank, path) for one, path in pairs if one.treebank]
    for bank, path in banks[1:]:
        first = banks[0][0]
        for name in ("sha256", "first", "rank"):
            if getattr(bank, name) != getattr(first, name):
                what = {"sha256": "files", "first": "--first", "rank": "--rank"}[name]
                raise InputError(
                    f"{path}: its words were probed with other {what} than those of "
                    f"{banks[0][1]}; probe both in the same way"
                )


def refuse_repeated(pairs: Sequence[tuple[Probes, str]]) -> None:
    """Refuse figures that stand in the files twice, which would count as another run."""
    seen: dict[tuple[Any, ...], str] = {}
    for one, path in pairs:
        keys = [
            *((a.system, a.run, a.kind, a.layer, a.task, a.seed) for a in one.accuracies),
            *((w.system, w.run, w.kind, w.layer, w.probe, w.seed) for w in one.words),
        ]
        for key in keys:
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
            for name in ("accuracies", "heads", "relations", "words")
        }
        yield replace(one, **parts)


def all_tables(results: Results) -> list[Table]:
    """Return the accuracies, and the intervals in which they lie."""
    of_sentences = []
    if results.accuracies:
        of_sentences = [accuracies(results), intervals(results), dev_accuracies(results)]
    return [*of_sentences, *word_tables(results.probes)]


def accuracies(results: Results) -> Table:
    """Return the table of accuracies, with the averages of the groups."""
    groups = averaged(results)
    head = ["Vectors", "Trees", *(titles(results)), *groups]
    majority = ["majority", NONE]
    majority += [f"{results.tasks[name].majority:.2f}" for name in results.names]
    majority += [NONE] * len(groups)
    rows: list[list[str | Figures]] = [[*majority]]
    for row in results.cells:
        rows.append([row.name, row.trees, *figures(results, row, groups)])
    rows += published(results, groups)
    return Table("Accuracy on test, in %", head, rows, list(notes(results, groups)))


def dev_accuracies(results: Results) -> Table:
    """Return the accuracies on dev, by which the settings of the classifiers were chosen."""
    rows: list[list[str | Figures]] = [
        [row.name, row.trees, *(Figures(results.on_dev(row, name)) for name in results.names)]
        for row in results.cells
    ]
    note = "The settings that were best on dev stand in the file of posattn-probe."
    head = ["Vectors", "Trees", *titles(results)]
    return Table("Accuracy on dev, in %", head, rows, [note])


def titles(results: Results) -> list[str]:
    """Return the names of the tasks, marked where gold trees tell the answer."""
    gold = {one.task for one in results.accuracies if one.trees == "gold"}
    return [
        name + (TOLD if name in gold and TASKS[name].told_by_trees else "")
        for name in results.names
    ]


def averaged(results: Results) -> dict[str, list[str]]:
    """Return the groups of which there is a task, with their tasks."""
    found = {g: [n for n in results.names if TASKS[n].group == g] for g in GROUPS}
    return {group: names for group, names in found.items() if names}


def figures(results: Results, row: Row, groups: Mapping[str, Sequence[str]]) -> list[Figures]:
    """Return the figures of a row: one for each run in each task and group."""
    of_task = {name: results.of_runs(row, name) for name in results.names}
    found = [Figures(of_task[name]) for name in results.names]
    for names in groups.values():
        runs = {len(of_task[name]) for name in names}
        whole = zip(*(of_task[name] for name in names), strict=True) if len(runs) == 1 else ()
        found.append(Figures([mean(of_run) for of_run in whole]))
    return found


def published(
    results: Results, groups: Mapping[str, Sequence[str]]
) -> Iterator[list[str | Figures]]:
    """Yield the published rows, if the files are those of SentEval."""
    theirs = [name for name in results.names if results.tasks[name].source == "SentEval"]
    if not any(TASKS[name].published for name in theirs):
        return
    for number, system in enumerate(SYSTEMS):
        row: list[str | Figures] = [f"published: {system}", NONE]
        known = {n: TASKS[n].published[number] for n in theirs if TASKS[n].published}
        row += [f"{known[name]:.2f}" if name in known else NONE for name in results.names]
        for names in groups.values():
            whole = all(name in known for name in names)
            row.append(f"{mean(known[name] for name in names):.2f}" if whole else NONE)
        yield row


def notes(results: Results, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield what must be known to read the table."""
    yield (
        f"Classifier: {results.classifier} (WC without a hidden layer); vectors: {results.pooling} "
        "over the pieces. ±: the standard deviation over the runs of a system, each the mean over "
        "the seeds of the classifier; of a single run, over these seeds."
    )
    for group, names in groups.items():
        yield f"{group}: the mean of {', '.join(names)}."
    sizes = {name: results.tasks[name] for name in results.names}
    yield "Sentences for train, dev and test: " + "; ".join(
        f"{name} {task.train:,}, {task.dev:,}, {task.test:,} ({task.classes} classes)"
        for name, task in sizes.items()
    )
    if any(task.source != "SentEval" for task in sizes.values()):
        yield "The files are not those of SentEval: no figure is comparable with published ones."
    if any(TOLD in title for title in titles(results)):
        yield (
            f"{TOLD.strip()} The gold trees tell a model that reads them the answer, so its "
            "accuracy is no evidence of what it has learnt."
        )
    yield (
        "untrained: the same model as it was before its training, with the same trees; only what "
        "is above it was learnt. embeddings: the mean of the model's word embeddings, without the "
        "encoder."
    )


def intervals(results: Results) -> Table:
    """Return for each figure the interval of 95 %, for new runs and sentences."""
    rows: list[list[str | Figures]] = []
    for row in results.cells:
        rows.append([row.name, *(interval(results.hits(row, name)) for name in results.names)])
        twin = Row(row.system, UNTRAINED, row.layer, row.trees)
        if row.kind == TRAINED and twin in results.cells:
            gains = [gain(results, row, twin, name) for name in results.names]
            rows.append([f"{row.name}, above untrained", *gains])
    note = (
        f"Intervals of 95 % from {SAMPLES:,} samples of sentences and, by Student's t, from the "
        "spread of the runs; with one run they say nothing of other trainings. There are as many "
        "intervals as cells; some leave out 0 by chance."
    )
    return Table("Intervals of the accuracies", ["Vectors", *titles(results)], rows, [note])


def interval(hits: Hits) -> str:
    """Return the interval of the mean, as text."""
    if not len(hits):
        return NONE
    low, high = bounds(hits)
    return f"{100 * low:.2f} to {100 * high:.2f}"


def bounds(hits: Hits) -> tuple[float, float]:
    """Return the ends of the interval of the mean: an accuracy lies between 0 and 1."""
    lowest = -1.0 if hits.min() < 0 else 0.0
    low, high = Estimate.of(resampled_means(hits, SAMPLES, SEED)).interval()
    return max(lowest, low), min(1.0, high)


def gain(results: Results, row: Row, twin: Row, task: str) -> str:
    """Return how much higher a system is than its untrained twin, with the interval."""
    trained, before = results.hits(row, task), results.hits(twin, task)
    if trained.shape != before.shape or not len(trained):
        return NONE
    differences = trained - before
    return f"{100 * differences.mean():+.2f} ({interval(differences)})"
