"""Do what the doors of the recipes offer: prepare, train, evaluate, table and sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments import sweeps
from fairseq_posattn.lab.experiments.at_once import run_side_by_side
from fairseq_posattn.lab.experiments.commands import python
from fairseq_posattn.lab.experiments.evaluating import evaluate
from fairseq_posattn.lab.experiments.machine import Machine, Share, shares
from fairseq_posattn.lab.experiments.preparing import prepare
from fairseq_posattn.lab.experiments.recipe import refuse_unknown
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.experiments.runs import RECORD, Run, one_run, runs_in
from fairseq_posattn.lab.experiments.scoring import check_scoring, score
from fairseq_posattn.lab.experiments.tables import Results, lines_of, write_tables
from fairseq_posattn.lab.experiments.training import run_of, train
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace

Seeds = Sequence[int]


class Experiment:
    """An experiment trains and evaluates one or several models with one or several seeds."""

    def __init__(self, place: Workplace, plan: Plan, machine: Machine, at_once: int | None = None):
        self.place, self.plan, self.machine, self.at_once = place, plan, machine, at_once

    def row(self, model: str, size: str | None) -> Row:
        """Return the row of a model."""
        return self.place.recipe.row(model, size)

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Row]:
        """Return the rows of a size, or all; names that are not among them are refused."""
        rows = self.place.recipe.rows(size)
        refuse_unknown(names, [row.title for row in rows])
        return rows

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Make the data of the recipe."""
        prepare(self.place, source, any_size, rest)

    def train(self, row: Row, seeds: Seeds) -> list[Run]:
        """Train a model with each seed."""
        runs = [run_of(self.place, row, seed, self.plan) for seed in seeds]
        self.side_by_side([partial(self.train_one, row, run) for run in runs])
        return runs

    def evaluate(
        self, row: Row | None, seeds: Seeds, baseline: Row | None, folder: str | None
    ) -> None:
        """Evaluate the runs of a model, and score them together, against a baseline or alone.

        row: the model, or None where a folder names the run.
        """
        if row is None:
            runs = [self.named(folder or "")]
        else:
            runs = [self.trained(row, seed) for seed in seeds]
        seeds = [run.record.seed for run in runs]
        others = [self.trained(baseline, seed) for seed in seeds] if baseline else []
        jobs = [(run, run is runs[0]) for run in [*others, *runs]]
        self.side_by_side([partial(self.evaluate_one, *job) for job in jobs])
        for test in self.place.subsets(self.plan):
            path = score(self.place, runs, others, test, self.plan)
            if not self.place.shell.dry_run:
                show(path)

    def table(self, rows: Sequence[Row], seeds: Seeds, baselines: Sequence[str]) -> None:
        """Train and evaluate all rows, and write the tables and the report."""
        runs = self.finished_runs(rows, seeds)
        results: Results = {}
        for row in rows:
            for test in self.place.subsets(self.plan):
                results |= self.scored(row, rows, runs, test, baselines)
        report = self.place.work / "report.html"
        first: dict[tuple[str, str], Path] = {}
        for (system, test, _), path in results.items():
            first.setdefault((system, test), path)
        title = ("--title", self.place.content.title, "--out", report)
        self.place.shell.run(python("fairseq_posattn.cli.report", *first.values(), *title))
        if not self.place.shell.dry_run:
            tests = list(self.place.subsets(self.plan))
            lines = lines_of(rows, tests, results, baselines or first_of_sizes(rows))
            print("\n".join(write_tables(lines, self.place.work / "table")))

    def scored(
        self,
        row: Row,
        rows: Sequence[Row],
        runs: dict[str, list[Run]],
        test: str,
        baselines: Sequence[str],
    ) -> Results:
        """Return the results of a model on a test set, one for each baseline of its size."""
        of_size = [other for other in rows if other.size == row.size]
        wanted = baselines or [of_size[0].title]
        others = [other for name in wanted for other in of_size if other.title == name]
        found: Results = {}
        compared: list[Row | None] = [other for other in others if other.system != row.system]
        for other in compared or [None]:
            against = runs[other.system] if other else []
            path = score(self.place, runs[row.system], against, test, self.plan)
            found[row.system, test, other.title if other else None] = path
        return found

    def sweep(self, named: str | None, seeds: Seeds) -> None:
        """Train and evaluate the models of the recipe's sweep, and draw their scores.

        named: the size of the models, or None for the first one of the recipe.
        """
        size = self.place.recipe.size(named)
        sweep = self.place.content.sweep
        if sweep is None:
            raise InputError(f"{self.place.recipe.folder}: the recipe has no [sweep]")
        self.plan = replace(self.plan, on_valid=True, examples=0)
        [test] = self.place.subsets(self.plan)
        baseline = Row(sweep.baseline, size)
        points = {(s.label, v): s.row(v, size) for s in sweep.series for v in s.values}
        rows = [baseline, *points.values()]
        runs = self.finished_runs(rows, seeds)
        paths = {
            row.system: score(self.place, runs[row.system], [], test, self.plan) for row in rows
        }
        if not self.place.shell.dry_run:
            bleu = {system: sweeps.bleu_of(path) for system, path in paths.items()}
            found = {point: bleu[row.system] for point, row in points.items()}
            print(sweeps.write(found, bleu[baseline.system], self.place.work / "sweep"), end="")

    def finished_runs(self, rows: Sequence[Row], seeds: Seeds) -> dict[str, list[Run]]:
        """Train and evaluate all rows with all seeds, and return the runs of each."""
        check_scoring(self.place)
        jobs = [(row, run_of(self.place, row, seed, self.plan)) for seed in seeds for row in rows]
        self.side_by_side(
            [partial(self.train_and_evaluate, *job, job[1].record.seed == seeds[0]) for job in jobs]
        )
        return {row.system: [run for other, run in jobs if other is row] for row in rows}

    def side_by_side(self, jobs: Sequence[Callable[[Machine, Share], None]]) -> None:
        """Do all jobs, several at once where the machine has room for them."""
        machine, parts = shares(self.machine, len(jobs), self.at_once)
        run_side_by_side([partial(job, machine) for job in jobs], parts)

    def train_one(self, row: Row, run: Run, machine: Machine, share: Share) -> None:
        """Train a run to its end."""
        train(self.place, run, row, self.plan, machine, share)

    def evaluate_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Translate the test sets with a run.

        shown: says whether the report shows examples and heads of this run, the first of several.
        """
        plan = self.plan if shown else replace(self.plan, examples=0)
        evaluate(self.place, run, plan, machine, share)

    def train_and_evaluate(
        self, row: Row, run: Run, shown: bool, machine: Machine, share: Share
    ) -> None:
        """Train a run, and translate the test sets with it."""
        self.train_one(row, run, machine, share)
        self.evaluate_one(run, shown, machine, share)

    def trained(self, row: Row, seed: int) -> Run:
        """Return the finished run of a model with a seed."""
        plan = self.plan
        if self.place.shell.dry_run or plan.training or plan.updates or plan.precision:
            run = run_of(self.place, row, seed, self.plan)
            if run.is_finished or self.place.shell.dry_run:
                return run
            raise InputError(f"{run.folder}: the training has not ended; start train.sh first")
        return one_run(
            self.place.runs, row.system, seed, lambda: run_of(self.place, row, seed, self.plan)
        )

    def named(self, folder: str) -> Run:
        """Return the run in a folder of this name."""
        name = Path(folder).name
        found = [run for run in runs_in(self.place.runs) if run.folder.name == name]
        if not found or not found[0].is_finished:
            raise InputError(
                f"{self.place.runs / name}: there is no finished run with a {RECORD} in this "
                "folder; name another one with --run"
            )
        return found[0]


def first_of_sizes(rows: Sequence[Row]) -> list[str]:
    """Return the first model of each size, with which the others of the size are compared."""
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row.size, row.title)
    return list(dict.fromkeys(first.values()))


def show(path: Path) -> None:
    """Print the main figures of a result."""
    from fairseq_posattn.io.records import read_record
    from fairseq_posattn.lab.scoring.on_screen import lines
    from fairseq_posattn.lab.scoring.score_record import ScoredSystem

    print("\n".join(lines(read_record(ScoredSystem, path, "evaluate again"))), flush=True)
    print(f"{path}: the scores are written here", file=sys.stderr)
