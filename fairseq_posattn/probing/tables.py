"""Build the tables of probing results for sentences, words and attention heads.

The accuracies for sentences have the layout of Wang et al. (2019), Table 3.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean

from fairseq_posattn.probing.agreement import CHILD, PARENT, PLACES
from fairseq_posattn.probing.joined import Hits, Results, Row
from fairseq_posattn.probing.results import (
    TRAINED,
    UNTRAINED,
    HeadAgreement,
    PlaceOffset,
    Probes,
    RelationHead,
    WordProbe,
    grouped,
    row_name,
)
from fairseq_posattn.probing.tasks import GROUPS, SYSTEMS, TASKS
from fairseq_posattn.scoring.statistics import Estimate, resampled_means
from fairseq_posattn.scoring.tables import NONE, Cell, Table, mean_cell

SAMPLES, SEED = 1000, 12345
TOLD = " †"
COLUMNS = {
    "distance": {"uuas": "UUAS", "spearman": "Spearman of distances"},
    "depth": {"root": "Root", "spearman": "Spearman of depths"},
    "UPOS": {"accuracy": "UPOS", "selectivity": "selectivity of UPOS"},
    "relation": {"accuracy": "Relation", "selectivity": "selectivity of relations"},
}
MOST = 15  # number of relations in the table of heads


def all_tables(results: Results) -> list[Table]:
    """Return the tables of accuracies and confidence intervals, then those of words and heads."""
    probes = results.probes
    found: list[Table] = []
    if results.cells:
        found = [accuracies(results), intervals(results), dev_accuracies(results)]
    if with_words := [probe for probe in probes if probe.words]:
        found.append(of_words([one for p in with_words for one in p.words], with_words[0]))
    if heads := [one for probe in probes for one in probe.heads]:
        found.append(of_heads(heads, [one for probe in probes for one in probe.offsets]))
    for direction in (PARENT, CHILD):
        every = [one for probe in probes for one in probe.relations]
        if relations := [one for one in every if one.direction == direction]:
            found.append(of_relations(relations, direction))
    return found


def accuracies(results: Results) -> Table:
    groups = averaged(results)
    head = ["Vectors", "Trees", *(titles(results)), *groups]
    majority = ["majority", NONE]
    majority += [f"{results.tasks[name].majority:.2f}" for name in results.names]
    majority += [NONE] * len(groups)
    rows: list[list[str | Cell]] = [[*majority]]
    for row in results.cells:
        rows.append([row.name, row.trees, *figures(results, row, groups)])
    rows += published(results, groups)
    return Table("Accuracy on test, in %", head, rows, list(notes(results, groups)))


def dev_accuracies(results: Results) -> Table:
    """Return the table of accuracies on dev, on which the hyperparameters were tuned."""
    rows: list[list[str | Cell]] = [
        [row.name, row.trees, *(mean_cell(results.on_dev(row, name)) for name in results.names)]
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


def figures(results: Results, row: Row, groups: Mapping[str, Sequence[str]]) -> list[Cell]:
    """Return the cells of a row: the values of all runs, for each task and group of tasks."""
    of_task = {name: results.on_test(row, name) for name in results.names}
    found = [mean_cell(of_task[name]) for name in results.names]
    for names in groups.values():
        runs = {len(of_task[name]) for name in names}
        whole = zip(*(of_task[name] for name in names), strict=True) if len(runs) == 1 else ()
        found.append(mean_cell([mean(of_run) for of_run in whole]))
    return found


def published(results: Results, groups: Mapping[str, Sequence[str]]) -> Iterator[list[str | Cell]]:
    theirs = [name for name in results.names if results.tasks[name].source == "SentEval"]
    if not any(TASKS[name].published for name in theirs):
        return
    for number, system in enumerate(SYSTEMS):
        row: list[str | Cell] = [f"published: {system}", NONE]
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
    rows: list[list[str | Cell]] = []
    for row in results.cells:
        rows.append([row.name, *(interval(results.hits(row, name)) for name in results.names)])
        twin = Row(row.system, UNTRAINED, row.layer, row.trees)
        if row.kind == TRAINED and twin in results.cells:
            gains = [gain(results, row, twin, name) for name in results.names]
            rows.append([f"{row.name}, above untrained", *gains])
    note = (
        f"95 % intervals from {SAMPLES:,} bootstrap samples of the sentences and, by Student's t, "
        "from the variance of the runs; with one run, they do not cover other runs. They are "
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


def of_words(words: Sequence[WordProbe], probes: Probes) -> Table:
    titles = [title for columns in COLUMNS.values() for title in columns.values()]
    rows: list[list[str | Cell]] = []
    for (system, kind, layer, trees), found in grouped(words, "system", "kind", "layer", "trees"):
        row: list[str | Cell] = [row_name(system, kind, layer), trees]
        for name, columns in COLUMNS.items():
            of_probe = [one for one in found if one.probe == name]
            for figure in columns:
                runs = means_of_runs(of_probe, figure)
                row.append(mean_cell(runs, 3 if figure == "spearman" else 2))
        rows.append(row)
    bank = probes.treebank
    rank = f"the rank {bank.rank}" if bank.rank else "the width of the vectors as their rank"
    tagged = any(one.probe == "UPOS" for one in words)
    without = "without punctuation" if tagged else "with punctuation, as no word has a UPOS"
    notes = [
        f"{bank.train:,} training, {bank.dev:,} dev and {bank.test:,} test sentences, the latter "
        f"with {bank.words:,} words. Structural probes (Hewitt and Manning 2019) have {rank}. UUAS "
        f"is the share of edges that are predicted correctly, {without}, and Root that of roots, "
        "both in %. Rank correlations are averaged by length over sentences of 5 to 50 words.",
        "UPOS and Relation: accuracies of linear probes, in %. Selectivity: their gain over random "
        "labels of the word types (Hewitt and Liang 2019).",
        "A model that reads trees is given part of the answer: only a gain over untrained was "
        "learnt.",
    ]
    return Table("Probes of words", ["Vectors", "Trees", *titles], rows, notes)


def means_of_runs(found: Iterable[WordProbe], figure: str) -> list[float]:
    runs = [[one.figures[figure] for one in run] for _, run in sorted(grouped(found, "run"))]
    return [sum(values) / len(values) for values in runs]


def of_heads(heads: Sequence[HeadAgreement], offsets: Sequence[PlaceOffset]) -> Table:
    """Return the table of each model's best head for each of PLACES."""
    rows: list[list[str | Cell]] = []
    for (system, run, kind, trees), found in grouped(heads, "system", "run", "kind", "trees"):
        row: list[str | Cell] = [f"{row_name(system, kind)}, run {run}", trees]
        for place in PLACES:
            best = max(found, key=lambda one: one.dev[place])  # ties go to the first head
            row.append(f"{getattr(best, place):.1f} (layer {best.layer}, head {best.head})")
        rows.append(row)
    rows += list(of_offsets(offsets))
    head = ["Model", "Trees", "parent", "a child", "previous word", "next word"]
    note = (
        "Share of the words with such a parent, child or neighbour whose largest weight is on it, "
        "in % on test, for the head that was best on dev. Best offset: the share for a head that "
        "always attends to the offset that is most frequent on dev, a baseline without trees."
    )
    return Table("What words attend to most", head, rows, [note])


def of_offsets(offsets: Sequence[PlaceOffset]) -> Iterator[list[str | Cell]]:
    """Yield the distinct rows of the baseline that predicts parents or children at a fixed offset.

    Models with the same pieces have the same offsets.
    """
    seen = set()
    for _, found in grouped(offsets, "system", "run", "kind", "trees"):
        cells = {one.place: f"{one.share:.1f} ({one.offset:+d})" for one in found}
        row = ("best offset", NONE, cells.get(PARENT, NONE), cells.get(CHILD, NONE), NONE, NONE)
        if row not in seen:
            seen.add(row)
            yield [*row]


def of_relations(relations: Sequence[RelationHead], direction: str) -> Table:
    """Return the table of the best head and best offset for the most frequent relations."""
    rows: list[list[str | Cell]] = []
    for (system, kind, trees), found in grouped(relations, "system", "kind", "trees"):
        for (relation,), same in list(grouped(found, "relation"))[:MOST]:
            rows.append(
                [
                    row_name(system, kind),
                    trees,
                    relation,
                    f"{same[0].words:,}",
                    mean_cell([one.accuracy for one in same], 1),
                    ", ".join(f"{one.layer}.{one.head}" for one in same),
                    f"{same[0].offset_accuracy:.1f} ({same[0].offset:+d})",
                ]
            )
    head = ["Model", "Trees", "Relation", "Words", "Best head", "Layer.head", "Best offset"]
    if direction == PARENT:
        looks, target = "words with a relation attend most to their parent", "the parent"
    else:
        looks, target = "parents attend most to a child with the relation", "the child"
    note = (
        f"How often {looks}, in %, with the head that is best on dev, for each run; and how often "
        f"{target} is at the offset that is most frequent on dev. The JSON file of posattn probe "
        "contains the accuracy of every head."
    )
    way = "to the parent" if direction == PARENT else "to the child"
    return Table(f"Relations in heads, {way}", head, rows, [note])
