"""Taggers on UD treebanks or PTB: create the data, and reproduce the tables of the paper.

`prepare.sh ud_tagging --from DIR` needs a folder with three files, whose names contain train, dev
and test, or a folder of such folders. Options of posattn binarize-tagging may follow --, or
--vectors FILE, which selects a dictionary of 20,000 words with fixed word vectors, as on PTB.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.experiment import Experiment, Results
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe_content import Options, Row
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.progress import ProgressDisplay
from fairseq_posattn.files.records import ABSENT, Open, as_document, as_record
from fairseq_posattn.scoring.inspection_record import Number, Whole
from fairseq_posattn.scoring.tables import NONE, Cell, Table, mean_cell, p_value
from fairseq_posattn.scoring.training_log import finite, read_training
from fairseq_posattn.tagging.accuracy import GROUPS, read_curve

PUBLISHED = Path(__file__).with_name("published.tsv")
SETTINGS = "tagging.json"  # posattn binarize-tagging writes this file last
SPLITS = {"train": "--train", "dev": "--valid", "test": "--test"}
NO_DATA = (".txt", ".md")
JSON = re.compile(r"\| (?P<kind>[\w]+) \| (?P<figures>\{.*\})$")
AGAIN = "delete the folder of this run and start the recipe again"


class Recipe(Experiment):
    """The recipe of the taggers, with one corpus per treebank."""

    read_in_training = ("train.*", "valid.*", "*.txt", SETTINGS)
    most_baselines = 1

    @property
    def folders(self) -> Path:
        """The folder with the data of all treebanks."""
        return self.work / "data"

    def data(self, corpus: str, seed: int) -> Path:
        return self.folders / corpus

    def vectors(self, corpus: str) -> Path:
        """Return the file that contains the path of a corpus's word vectors, if it uses any."""
        return self.folders / f"{corpus}.vectors"

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Binarise a treebank, or all treebanks in a folder."""
        parser = argparse.ArgumentParser(f"prepare.sh {self.name} --", allow_abbrev=False)
        parser.add_argument("--vectors", type=Path)
        parser.add_argument("--column", default="upos")
        options, others = parser.parse_known_args(rest)
        if options.vectors and not options.vectors.is_file():
            raise InputError(
                f"{options.vectors}: there is no such file; give a file with word vectors"
            )
        words = [] if options.vectors is None or "--words" in others else ["--words", "20000"]
        words += ["--column", options.column, *others]
        for treebank in treebanks_in(self.given(source), self.progress):
            name = treebank.resolve().name.removeprefix("UD_")
            name += "" if options.column == "upos" else f".{options.column}"
            self.prepare_one(treebank, name, words, options.vectors)

    def prepare_one(
        self, treebank: Path, name: str, words: list[str], vectors: Path | None
    ) -> None:
        """Binarise one treebank, and record the path of its word vectors."""
        files = {split: file_of(treebank, split) for split in SPLITS}
        given = [word for split, path in files.items() for word in (SPLITS[split], path)]
        out, named = self.data(name, 0), f"{vectors.resolve()}\n" if vectors else ""

        def make() -> None:
            options = (*words, "--destdir", out, "--overwrite")
            self.make("fairseq_posattn.cli.binarize_tagging", *given, *options)
            if not named:
                self.shell.act(self.vectors(name).unlink, True)
            elif self.shell.does(f"train with {vectors}"):
                with written_whole(self.vectors(name)) as file:
                    file.write(named)

        self.once(name, [*words, named], list(files.values()), [out / SETTINGS], make)

    def options_of(self, row: Row, seed: int) -> Options:
        """Return the options of fairseq-train; corpora with word vectors use those for PTB."""
        options, vectors = super().options_of(row, seed), self.vectors(row.size)
        if vectors.exists():
            options["arch"] += "_ptb"
            options["word-vectors"] = vectors.read_text().strip()
            options["fixed-word-vectors"] = True
        return options

    def outputs(self, folder: Path) -> Options:
        """Return the option that writes the learning curve."""
        return {"curve": folder / "curve.jsonl"}

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Test the best checkpoint, and read the results of the run from its logs."""
        log = run.folder / "test.log"
        options = {
            "path": run.folder / "checkpoint_best.pt",
            "valid-subset": "test",
            "batch-size": 64,
            "num-workers": 0,
            "log-format": "json",
        }
        self.program("validate", options, run, machine, share, log)
        training = run.folder / "train.log"
        return self.shell.act(lambda: accuracies(log) | trained(training), instead={})

    def tables(self, rows: Sequence[Row], results: Results, baseline: str) -> list[Table]:
        """Return tables like Tables 2c and 2d of the paper."""
        treebanks = sorted({corpus for _, corpus in results})
        return [
            macro_table(rows, results, treebanks),
            treebank_table(rows, results, treebanks, baseline),
        ]

    def draw(self, rows: Sequence[Row], results: Results, runs: dict[str, list[Run]]) -> None:
        """Plot the accuracy on dev by update, as in Figure 2 of the paper."""
        draw(rows, runs, self.work / "curves.png")


def treebanks_in(folder: Path, display: ProgressDisplay) -> list[Path]:
    """Return the folder if it is a treebank, otherwise its subfolders that have all splits."""
    if files_with(folder, "train"):
        return [folder]
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    treebanks = [path for path in inside if files_with(path, "train")]
    for path in treebanks:
        if missing := [split for split in SPLITS if not files_with(path, split)]:
            text = f"this treebank is left out: it has no {' and no '.join(missing)}"
            display.finish(path.name, text)
    return [path for path in treebanks if all(files_with(path, s) for s in SPLITS)] or [folder]


def files_with(folder: Path, split: str) -> list[Path]:
    """Return the files in a folder whose names contain that of a split."""
    found = (path for path in sorted(folder.glob(f"*{split}*")) if path.is_file())
    return [path for path in found if path.suffix not in NO_DATA]


def file_of(folder: Path, split: str) -> Path:
    """Return the file of a split; raise an InputError unless there is exactly one."""
    found = files_with(folder, split)
    if len(found) != 1:
        raise InputError(
            f"{folder} has {len(found)} files with '{split}' in their names, expected one; give "
            "the folder of a treebank with --from"
        )
    return found[0]


def figures(log: Path, kind: str) -> list[dict]:
    """Return the JSON statistics of one kind (train, valid or test) from a log."""
    found = []
    for place, line in enumerate(read_lines(log), start=1):
        if (match := JSON.search(line)) and match["kind"] == kind:
            try:
                found.append(json.loads(match["figures"]))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{log}:{place}: the line is damaged ({error}); {AGAIN}"
                ) from error
    return found


def accuracies(log: Path) -> dict[str, float]:
    """Return the accuracies on the test set, except for groups without words."""
    lines = figures(log, "test")
    if not lines:
        raise InputError(f"{log} contains no accuracies; {AGAIN}")
    names = {name: lines[-1].get(f"test_{name}", lines[-1].get(name)) for name in GROUPS.values()}
    return {
        name: number_of(log, name, value)
        for name, value in names.items()
        if value not in (None, "nan")
    }


def trained(log: Path) -> dict[str, float]:
    """Return the number of parameters, epochs, dev accuracy and speed of a training run.

    Epochs that were repeated after an interruption count once.
    """
    walls = of_epochs(log, "train", "train_train_wall")
    validated = of_epochs(log, "valid", "valid_accuracy")
    parameters = read_training([str(log)]).parameters
    if not (walls and validated and parameters):
        raise InputError(f"{log} contains no complete training; {AGAIN}")
    return {
        "parameters": parameters,
        "epochs": int(max(walls)),
        "best_epoch": int(max(validated, key=validated.__getitem__)),
        "dev_accuracy": max(validated.values()),
        "seconds_per_epoch": round(mean(walls.values()), 2),
    }


def of_epochs(log: Path, kind: str, name: str) -> dict[float, float]:
    lines = figures(log, kind)
    return {
        number_of(log, "epoch", one.get("epoch")): number_of(log, name, one.get(name))
        for one in lines
    }


def number_of(log: Path, name: str, value: object) -> float:
    """Return a value of a log as a number; fairseq writes some numbers as strings."""
    found = finite(value)
    if found is None:
        raise InputError(f"{log}: {name} is {str(value)[:40]!a}, expected a number; {AGAIN}")
    return found


def of_seeds(results: Results, model: str, treebank: str, name: str) -> list[float]:
    return [found[name] for found in results.get((model, treebank), []) if name in found]


def macro(results: Results, treebanks: Sequence[str], model: str, name: str) -> str:
    """Format the mean over treebanks ± the mean of their standard deviations, as published."""
    by_treebank = [of_seeds(results, model, treebank, name) for treebank in treebanks]
    if not all(by_treebank):
        return NONE
    spreads = [stdev(values) for values in by_treebank if len(values) > 1]
    spread = f" ± {mean(spreads):.2f}" if spreads else ""
    return f"{mean(map(mean, by_treebank)):.2f}{spread}"


def macro_table(rows: Sequence[Row], results: Results, treebanks: Sequence[str]) -> Table:
    """Return a table like Table 2c of the paper."""
    groups = {"all": "accuracy", "OOV": "oov_accuracy", "ambiguous": "ambiguous_accuracy"}
    head = ["model", *(h for group in groups for h in (group, "published")), "parameters"]
    lines = []
    for row in rows:
        cells = []
        for name in groups.values():
            published = row.published.get("UD", {}).get(name)
            cells += [macro(results, treebanks, row.name, name), shown(published)]
        found = (r.get("parameters") for t in treebanks for r in results.get((row.name, t), []))
        sizes = set(filter(None, found))
        size = " to ".join(f"{n:,}" for n in sorted({min(sizes), max(sizes)})) if sizes else NONE
        lines.append([row.shown, *cells, size])
    title = f"Macro mean over {len(treebanks)} treebank{'s' * (len(treebanks) > 1)}"
    return Table(f"{title} (the published: over 47)", head, lines)


def treebank_table(
    rows: Sequence[Row], results: Results, treebanks: Sequence[str], baseline: str
) -> Table:
    """Return the table of accuracies over all words, like Table 2d of the paper."""
    published = read_published()
    ours = {t: {r.name: of_seeds(results, r.name, t, "accuracy") for r in rows} for t in treebanks}
    p = p_values(ours, baseline)
    against = f"p against {next(row.shown for row in rows if row.name == baseline)}"
    head = ["treebank", "model", "accuracy", *([against] if p else []), "published"]
    lines = []
    for treebank in treebanks:
        for row in rows:
            cells: list[str | Cell] = [treebank, row.shown, mean_cell(ours[treebank][row.name])]
            cells += [p.get((treebank, row.name), NONE)] if p else []
            cells.append(shown(published.get(treebank, {}).get(row.name)))
            lines.append(cells)
    note = "accuracy: our mean ± standard deviation over the seeds."
    more = "p: Welch's t-test over the seeds, with Holm's correction for all tests of the table."
    return Table("Accuracy over all words", head, lines, [f"{note} {more}" if p else note])


def p_values(
    figures: Mapping[str, Mapping[str, Sequence[float]]], baseline: str
) -> dict[tuple[str, str], str]:
    """Return the p-values of Welch's t-test between each model and the baseline on each treebank.

    Holm's correction is applied over all p-values.

    figures: the accuracies of all runs, by treebank and by model.
    """
    # imported here, because a dry run does not require numpy
    from fairseq_posattn.scoring.statistics import holm, welch

    raw = {}
    for treebank, models in figures.items():
        for model, values in models.items():
            p = welch(models.get(baseline, ()), values)
            if p is not None and model != baseline:
                raw[treebank, model] = p
    corrected = holm(list(raw.values()))
    return {pair: p_value(p) for pair, p in zip(raw, corrected, strict=True)}


def read_published() -> dict[str, dict[str, float]]:
    """Return the published accuracies by treebank and model."""
    head, *lines = (line.split("\t") for line in read_lines(PUBLISHED))
    return {
        treebank: {model: float(cell) for model, cell in zip(head[1:], cells, strict=True)}
        for treebank, *cells in lines
    }


def shown(published: float | None) -> str:
    return NONE if published is None else f"{published:.2f}"


@dataclass(frozen=True)
class Point(Open):
    """One point of a learning curve."""

    updates: Whole
    accuracy: Number = ABSENT


@dataclass(frozen=True)
class Curve(Open):
    """The points of a learning curve."""

    points: list[Point]


def mean_curve(curves: list[list[dict]]) -> tuple[list[int], list[float]]:
    """Return the updates, and the mean accuracy at each; finished runs keep their last value."""
    updates = sorted({point["updates"] for curve in curves for point in curve})
    by_run = [{point["updates"]: point["accuracy"] for point in curve} for curve in curves]
    means = []
    for k, update in enumerate(updates):
        for of_run in by_run:
            of_run.setdefault(update, of_run.get(updates[k - 1]) if k else None)
        values = [of_run[update] for of_run in by_run if of_run[update] is not None]
        means.append(mean(values))
    return updates, means


def points(path: Path) -> list[dict]:
    """Read the points of a run's learning curve that contain an accuracy."""
    curve = as_record(Curve, {"points": read_curve(path)}, str(path), "delete it")
    return [as_document(point) for point in curve.points if point.accuracy is not ABSENT]


def draw(rows: Sequence[Row], runs: dict[str, list[Run]], out: Path) -> None:
    """Plot the accuracy on dev by update, averaged over the runs of each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for row in rows:
        found = [points(run.folder / "curve.jsonl") for run in runs[row.name]]
        if curves := [curve for curve in found if curve]:
            axes.plot(*mean_curve(curves), label=row.shown)
    axes.set(xlabel="batches", ylabel="accuracy on dev, %", ylim=(80, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    with replaced_whole(out) as partial:
        figure.savefig(partial, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
