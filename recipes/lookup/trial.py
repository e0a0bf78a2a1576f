"""The lookup-table task: create its data, and measure the accuracy of its models.

Columns of the result tables are kinds of test lines, or their lengths. With several seeds (of
tables and models), cells contain the mean, the lowest and the highest value.

A sequence is correct if it equals the reference, and a word if the reference has the same word in
the same position; missing words count as wrong. The first word of each reference is copied from the
source. Random guessing of a string is correct with a probability of 1/8.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.experiment import Experiment, Results
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe import arguments
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.files import read_lines, same_number_of_lines
from fairseq_posattn.scoring import generate_log
from fairseq_posattn.scoring.tables import Cell, Table, mean_cell
from fairseq_posattn.scoring.training_log import read_training

LONGER = "longer"
KINDS = ("held-out inputs", "held-out compositions", "held-out tables", LONGER)  # see tables.py
MEASURES = ("sequences", "words")
AGAIN = "delete it and start the recipe again"

Accuracies = dict[str, dict[str, float]]  # column -> measure -> share


class Recipe(Experiment):
    """The lookup recipe, which draws different tables for each seed."""

    def corpora(self) -> list[str]:
        return ["tables"]

    def drawn(self, seed: int) -> Path:
        """Return the folder with the tables of a seed."""
        return self.work / f"raw.seed{seed}"

    def data(self, corpus: str, seed: int) -> Path:
        """Return the folder with the binarised tables of a seed."""
        return self.work / f"data.seed{seed}"

    def make_data(self, row: Row, seed: int) -> None:
        """Draw the tables of a seed, and binarise them."""
        raw, data, program = self.drawn(seed), self.data(row.size, seed), self.folder / "tables.py"
        options = arguments({**self.content.data, "seed": seed})

        def make() -> None:
            self.make(program, raw, *options, "--overwrite")
            splits = [word for s in ("train", "valid", "test") for word in (f"--{s}pref", raw / s)]
            languages = ("--source-lang", "src", "--target-lang", "tgt")
            self.preprocess(data, *languages, *splits)

        outputs = [data / "dict.src.txt", data / "test.src-tgt.tgt.bin", raw / "test.kinds"]
        self.once(f"tables.seed{seed}", options, [program], outputs, make)

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Decode the test set, and measure the accuracies."""
        options = {
            "path": run.folder / "checkpoint_last.pt",
            "batch-size": 128,
            "required-batch-size-multiple": 1,
            "beam": 1,
            "max-len-a": 1,
            "max-len-b": 2,
        }
        self.program("generate", options, run, machine, share, run.folder / "generate.log")
        raw = self.drawn(run.record.seed)
        return self.shell.act(measured, run.folder, raw, instead={})

    def tables(self, rows: Sequence[Row], results: Results, baseline: str) -> list[Table]:
        return [table(measure, rows, results) for measure in MEASURES]

    def draw(self, rows: Sequence[Row], results: Results, runs: dict[str, list[Run]]) -> None:
        """Plot the accuracy against the number of tables."""
        draw(rows, results, self.work / "lookup.png")


def measured(folder: Path, raw: Path) -> dict[str, Any]:
    same_number_of_lines([raw / f"test.{end}" for end in ("src", "tgt", "kinds")])
    gold = list(read_lines(raw / "test.tgt"))
    decoded = outputs(folder / "generate.log", len(gold))
    parameters = read_training([str(folder / "train.log")]).parameters
    return {"parameters": parameters, "accuracy": accuracies(columns(raw), gold, decoded)}


def columns(raw: Path) -> list[str]:
    """Return the column of each test line: its kind, or its number of tables if it is longer."""
    sources, kinds = read_lines(raw / "test.src"), read_lines(raw / "test.kinds")
    found = []
    for number, (source, kind) in enumerate(zip(sources, kinds, strict=True), start=1):
        if kind not in KINDS or not source.split():
            raise InputError(
                f"{raw}/test.kinds:{number}: the kind {kind[:40]!a} of the source {source[:40]!a} "
                "is unknown; delete the folder and start the recipe again"
            )
        found.append(f"{len(source.split()) - 1} tables" if kind == LONGER else kind)
    return found


def outputs(log: Path, count: int) -> list[str]:
    found = generate_log.outputs(generate_log.read_logs([log]))
    if len(found) != count:
        raise InputError(f"{log} has {len(found)} of {count} outputs; {AGAIN}")
    return found


def accuracies(columns: list[str], gold: list[str], decoded: list[str]) -> Accuracies:
    """Return the shares of correct sequences and words for each column."""
    sequences: defaultdict[str, list[bool]] = defaultdict(list)
    right: defaultdict[str, int] = defaultdict(int)
    words: defaultdict[str, int] = defaultdict(int)
    for column, target, output in zip(columns, gold, decoded, strict=True):
        sequences[column].append(target == output)
        right[column] += words_right(target.split(), output.split())
        words[column] += len(target.split())
    return {
        column: {"sequences": mean(found), "words": right[column] / max(words[column], 1)}
        for column, found in sequences.items()
    }


def words_right(target: list[str], output: list[str]) -> int:
    return sum(one == other for one, other in zip(target, output, strict=False))


def table(measure: str, rows: Sequence[Row], results: Results) -> Table:
    first = next(iter(results.values()))[0]
    heads = list(first["accuracy"])
    lines = []
    for row in rows:
        [runs] = [found for (model, _), found in results.items() if model == row.name]
        cells: list[str | Cell] = [f"`{row.training['arch']}`"]
        cells.append(mean_cell([runs[0]["parameters"]], 0))
        cells += [mean_cell(shares(runs, column, measure), 1, as_range=True) for column in heads]
        lines.append(cells)
    title = f"Accuracy in % by {measure.removesuffix('s')}"
    if len(next(iter(results.values()))) > 1:
        title += ", mean (lowest to highest) of the seeds"
    return Table(title, ["model", "parameters", *heads], lines)


def shares(runs: list[dict], column: str, measure: str) -> list[float]:
    return [100 * run["accuracy"][column][measure] for run in runs]


def draw(rows: Sequence[Row], results: Results, path: Path) -> None:
    """Plot the accuracy by number of tables; the values at 2 are for held-out compositions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for panel, measure in zip(panels, MEASURES, strict=True):
        for row in rows:
            lengths, found = by_length(results[row.name, "tables"], measure)
            middle = [mean(numbers) for numbers in found]
            (line,) = panel.plot(lengths, middle, marker="o", label=row.training["arch"])
            low, high = [min(n) for n in found], [max(n) for n in found]
            panel.fill_between(lengths, low, high, color=line.get_color(), alpha=0.15)
        panel.axvline(2.5, color="grey", linestyle=":")
        panel.set(xlabel="tables (trained on: 1 and 2)", ylabel=f"right {measure}, %")
        panel.set_ylim(-3, 103)
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    with replaced_whole(path) as partial:
        figure.savefig(partial, format="png", dpi=110)
    pyplot.close(figure)


def by_length(runs: list[dict], measure: str) -> tuple[list[int], list[list[float]]]:
    """Return the numbers of tables, and for each the accuracies of all runs."""
    named = {column: 2 for column in runs[0]["accuracy"] if column == KINDS[1]}
    for column in runs[0]["accuracy"]:
        if column.endswith(" tables") and column[0].isdigit():
            named[column] = int(column.split()[0])
    return list(named.values()), [shares(runs, column, measure) for column in named]
