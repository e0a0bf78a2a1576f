"""Build the tables of probing results, in the layout of Wang et al. (2019), Table 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from fairseq_posattn.lab.probing.joined import Hits, Results, Row
from fairseq_posattn.lab.probing.results import TRAINED, UNTRAINED
from fairseq_posattn.lab.probing.tasks import GROUPS, SYSTEMS, TASKS
from fairseq_posattn.lab.probing.word_tables import word_tables
from fairseq_posattn.lab.scoring.cells import NONE
from fairseq_posattn.lab.scoring.plain_tables import Figures, Table
from fairseq_posattn.lab.scoring.statistics import Estimate, resampled_means

SAMPLES, SEED = 1000, 12345
TOLD = " †"


def all_tables(results: Results) -> list[Table]:
    """Return the tables of accuracies and confidence intervals, then those of words and heads."""
    of_sentences = []
    if results.cells:
        of_sentences = [accuracies(results), intervals(results), dev_accuracies(results)]
    return [*of_sentences, *word_tables(results.probes)]


def accuracies(results: Results) -> Table:
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
    """Return the table of accuracies on dev, on which the hyperparameters were tuned."""
    rows: list[list[str | Figures]] = [
        [row.name, row.trees, *(Figures(results.on_dev(row, name)) for name in results.names)]
        for row in results.cells
    ]
    note = "The JSON file of posattn probe contains the hyperparameters that were best on dev."
    head = ["Vectors", "Trees", *titles(results)]
    return Table("Accuracy on dev, in %", head, rows, [note])


def titles(results: Results) -> list[str]:
    """Return the task names. A task is marked if models read gold trees that reveal its labels."""
    every = [one for probe in results.probes for one in probe.accuracies]
    gold = {one.task for one in every if one.trees == "gold"}
    return [
        name + (TOLD if name in gold and TASKS[name].told_by_trees else "")
        for name in results.names
    ]


def averaged(results: Results) -> dict[str, list[str]]:
    found = {g: [n for n in results.names if TASKS[n].group == g] for g in GROUPS}
    return {group: names for group, names in found.items() if names}


def figures(results: Results, row: Row, groups: Mapping[str, Sequence[str]]) -> list[Figures]:
    """Return the cells of a row: the values of all runs, for each task and group of tasks."""
    of_task = {name: results.on_test(row, name) for name in results.names}
    found = [Figures(of_task[name]) for name in results.names]
    for names in groups.values():
        runs = {len(of_task[name]) for name in names}
        whole = zip(*(of_task[name] for name in names), strict=True) if len(runs) == 1 else ()
        found.append(Figures([mean(of_run) for of_run in whole]))
    return found


def published(
    results: Results, groups: Mapping[str, Sequence[str]]
) -> Iterator[list[str | Figures]]:
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
    yield (
        f"Classifier: {results.classifier} (WC without a hidden layer); vectors: {results.pooling} "
        "over the pieces. Figures are means ± standard deviations over the runs of a system, each "
        "averaged over the seeds of the classifier; for a single run, over these seeds."
    )
    for group, names in groups.items():
        yield f"{group}: the mean of {', '.join(names)}."
    sizes = {name: results.tasks[name] for name in results.names}
    yield "Sentences for train, dev and test: " + "; ".join(
        f"{name} {task.train:,}, {task.dev:,}, {task.test:,} ({task.classes} classes)"
        for name, task in sizes.items()
    )
    if any(task.source != "SentEval" for task in sizes.values()):
        yield "The files are not SentEval's, so no figure is comparable with published ones."
    if any(TOLD in title for title in titles(results)):
        yield (
            f"{TOLD.strip()} The gold trees reveal the label to a model that reads them, so its "
            "accuracy is no evidence of what it has learnt."
        )
    yield (
        "untrained: the same model before training, with the same trees; only a gain over it was "
        "learnt. embeddings: the mean of the model's word embeddings, without the encoder."
    )


def intervals(results: Results) -> Table:
    """Return the table of 95 % confidence intervals of all accuracies, over sentences and runs."""
    rows: list[list[str | Figures]] = []
    for row in results.cells:
        rows.append([row.name, *(interval(results.hits(row, name)) for name in results.names)])
        twin = Row(row.system, UNTRAINED, row.layer, row.trees)
        if row.kind == TRAINED and twin in results.cells:
            gains = [gain(results, row, twin, name) for name in results.names]
            rows.append([f"{row.name}, above untrained", *gains])
    note = (
        f"95 % intervals from {SAMPLES:,} bootstrap samples of the sentences and, by Student's t, "
        "from the variance of the runs; with one run, they do not cover other trainings. They are "
        "not corrected for multiple comparisons, so some exclude 0 by chance."
    )
    return Table("Intervals of the accuracies", ["Vectors", *titles(results)], rows, [note])


def interval(hits: Hits) -> str:
    if not len(hits):
        return NONE
    low, high = bounds(hits)
    return f"{100 * low:.2f} to {100 * high:.2f}"


def bounds(hits: Hits) -> tuple[float, float]:
    """Return the confidence interval of a mean, clipped to [0, 1], or [-1, 1] for differences."""
    lowest = -1.0 if hits.min() < 0 else 0.0
    low, high = Estimate.of(resampled_means(hits, SAMPLES, SEED)).interval()
    return max(lowest, low), min(1.0, high)


def gain(results: Results, row: Row, twin: Row, task: str) -> str:
    """Return the gain of a system over its untrained model, with a confidence interval."""
    trained, before = results.hits(row, task), results.hits(twin, task)
    if trained.shape != before.shape or not len(trained):
        return NONE
    differences = trained - before
    return f"{100 * differences.mean():+.2f} ({interval(differences)})"
