"""Train and test the models of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import called
from fairseq_posattn.experiments.machine import (
    Machine,
    Share,
    run_side_by_side,
    shares,
    visible_devices,
)
from fairseq_posattn.experiments.recipe import FILE, refuse_unknown
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.runs import FINISHED, RECORD, Run, runs_in
from fairseq_posattn.experiments.sizes import DEMO
from fairseq_posattn.experiments.training import train_once
from fairseq_posattn.experiments.training_options import command_of, run_of
from fairseq_posattn.experiments.workspace import Workspace
from fairseq_posattn.files.files import read_json, write_json
from fairseq_posattn.files.terminal import say
from fairseq_posattn.files.version import code_version
from fairseq_posattn.scoring.tables import Table, markdown, write_tables

Seeds = Sequence[int]
Results = dict[tuple[str, str], list[dict[str, Any]]]  # model and corpus -> one result per seed
AGAIN = "delete it and start the recipe again"
TRIAL, RESULT = "trial.py", "result.json"


class Experiment(Workspace):
    """Trains and tests the models of a recipe with one or more seeds.

    The trial.py of a recipe derives its class `Recipe` from this class. `Recipe` must implement
    `data`, `test` and `tables`. It may override the other methods marked as overridable. Recipes
    without a trial.py use the subclass `Translation`.

        class Recipe(Experiment):
            def data(self, corpus, seed):
                return self.work / "data" / corpus

            def test(self, run, corpus, machine, share):
                self.program("validate", {"path": run.folder / "checkpoint_best.pt"}, ...)
                return {"accuracy": ...}

            def tables(self, rows, results, baseline):
                return [Table(...)]

    The record of a run stores the name of the corpus as `size`.
    """

    # Methods that a recipe can override

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Test a trained model; return its results for the tables, as JSON values."""
        raise NotImplementedError

    def tables(self, rows: Sequence[Row], results: Results, baseline: str) -> list[Table]:
        """Return the result tables; `results` contains one return value of `test` per seed."""
        raise NotImplementedError

    def draw(self, rows: Sequence[Row], results: Results, runs: dict[str, list[Run]]) -> None:
        """Plot the results; `runs` contains the runs of each model."""

    def corpora(self) -> list[str]:
        """Return the names of the corpora whose data are complete."""
        stamps = sorted((self.work / "steps").glob("*.json"))
        return [path.stem for path in stamps if "outputs" in read_json(path, AGAIN)]

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Create the data of recipes that have a step `prepare`."""
        raise InputError(
            f"{self.name} has no prepare step, because it creates its own data; run "
            f"{called('table', self.recipe.called)}"
        )

    def make_data(self, row: Row, seed: int) -> None:
        """Create the data of a run; the default method only checks that the data exist."""
        data, step = self.shards(row, seed)[0], called("prepare", self.recipe.called)
        if not self.shell.is_there(data):
            raise InputError(f"{data}: no data; run {step} first")

    def choices_of_test(self) -> list[Any]:
        """Return the settings that affect a test; if they change, the test is repeated."""
        return []

    def test_files(self, corpus: str, seed: int) -> list[Path]:
        """Return the files that a test reads, except the model."""
        return sorted(self.data(corpus, seed).glob("test.*"))

    # The models and runs

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Row]:
        """Return the models of the table; raise an InputError for unknown names.

        names: models to include even if the table does not contain them by default.
        """
        rows = self.recipe.rows(size)
        refuse_unknown(names, [row.title for row in rows])
        return [row for row in rows if row.in_table or row.title in names]

    def take_only(self, models: Sequence[str]) -> None:
        """Restrict `prepare` to the data that these models need."""
        refuse_unknown(models, [row.title for row in self.content.models])
        rows = [row for row in self.content.models if row.title in models]
        self.recipe = replace(self.recipe, content=replace(self.content, models=rows))

    def sized(self, asked: str | None) -> str | None:
        """Return the requested size; by default, select `demo` and the CPU if no GPU is visible."""
        machine = self.machine
        chosen = (
            self.settings.from_study
            or machine.cpu
            or machine.gpus is not None
            or asked not in (None, DEMO)
        )
        if chosen or DEMO not in self.content.sizes or visible_devices():
            return asked
        self.machine = replace(machine, cpu=True)
        updates = self.settings.updates or self.content.sizes[DEMO].updates
        say(
            f"no GPU is visible, so models of size {DEMO} are trained on the CPU, for {updates:,} "
            "updates each; to change this, use --size and --cpu or --gpus"
        )
        return DEMO

    def named(self, folder: str) -> Run:
        """Return the finished run in a folder; raise an InputError if there is none."""
        name = Path(folder).name
        found = [run for run in runs_in(self.runs) if run.folder.name == name]
        if not found or not found[0].is_finished:
            raise InputError(
                f"{self.runs / name}: the folder contains no finished run with a {RECORD}; "
                "select another run with --run"
            )
        return found[0]

    def of_corpora(self, rows: Sequence[Row]) -> list[Row]:
        """Return the models for each corpus of --corpora (default: those with complete data)."""
        known, chosen = self.corpora(), self.settings.corpora or []
        for name in chosen:
            if known and name not in known and not self.shell.dry_run:
                raise InputError(
                    f"--corpora: {name} is unknown or not prepared; choose among {' '.join(known)}"
                )
        names = dict.fromkeys(chosen or known or ["CORPUS"])
        return [row.on_corpus(name) for name in names for row in rows]

    def planned(self, rows: Sequence[Row], seeds: Seeds) -> list[tuple[Row, Run]]:
        """Make sure that the data exist, and return one (model, run) pair per model and seed."""
        jobs = [(row, seed) for seed in seeds for row in self.of_corpora(rows)]
        for job in {tuple(self.shards(*job)): job for job in jobs}.values():
            self.make_data(*job)
        return [(row, run_of(self, row, seed)) for row, seed in jobs]

    def trained(self, row: Row, seeds: Seeds) -> list[Run]:
        """Return the runs of a model; raise an InputError if one is not completely trained."""
        runs = [run for _, run in self.planned([row], seeds)]
        for run in runs:
            if not self.shell.is_there(run.folder / FINISHED):
                raise InputError(f"{run.folder}: training is not complete; run train.sh first")
        return runs

    # The steps

    def train(self, row: Row, seeds: Seeds) -> None:
        self.side_by_side([partial(self.train_one, *job) for job in self.planned([row], seeds)])

    def evaluate(self, runs: Sequence[Run], baseline: Row | None) -> None:
        """Test the runs of a model and print their scores, optionally compared with a baseline."""
        seeds = dict.fromkeys(run.record.seed for run in runs)
        sizes = {run.record.size for run in runs}
        others = self.trained(baseline, [*seeds]) if baseline else []
        others = [run for run in others if run.record.size in sizes]
        jobs = [(run, run is runs[0]) for run in [*others, *runs]]
        self.side_by_side([partial(self.test_one, *job) for job in jobs])
        self.show(runs, others)

    def table(self, rows: Sequence[Row], seeds: Seeds, baselines: Sequence[str]) -> None:
        self.write(rows, self.finished(rows, seeds), baselines)

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate a model with several values of an option, and plot the scores."""
        raise InputError(f"{self.folder / FILE} has no [sweep]; add one if the models are presets")

    def finished(self, rows: Sequence[Row], seeds: Seeds) -> list[Run]:
        """Train and test all models with all seeds, and return their runs."""
        jobs = self.planned(rows, seeds)
        # runs with other test trees come second, as they copy the models that were trained first
        for tested in (False, True):
            some = [job for job in jobs if bool(job[1].record.tested) == tested]
            if some:
                self.side_by_side([partial(self.train_and_test, seeds[0], *job) for job in some])
        return [run for _, run in jobs]

    def side_by_side(self, jobs: Sequence[Callable[[Machine, Share], None]]) -> None:
        """Run all jobs, as many in parallel as the machine permits."""
        machine, parts = shares(self.machine, len(jobs))
        if self.small and not machine.cpu and self.machine.gpus is None and machine.devices():
            machine, parts = replace(machine, gpus=1), [Share(part.gpus[:1]) for part in parts]
        run_side_by_side([partial(job, machine) for job in jobs], parts)

    def train_one(self, row: Row, run: Run, machine: Machine, share: Share) -> None:
        train_once(self, run, partial(command_of, self, row, run, machine), machine, share)

    def train_and_test(
        self, shown: int, row: Row, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train and test a run; store examples for the report if its seed equals `shown`."""
        self.train_one(row, run, machine, share)
        self.test_one(run, run.record.seed == shown, machine, share)

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Test a run unless it has been tested already.

        shown: whether to store examples for the report, which is done for one seed per model.
        """
        name, corpus, seed = run.record.name, run.record.size, run.record.seed
        out = run.folder / RESULT

        def test() -> None:
            found = {"model": name, "corpus": corpus, "seed": seed}
            found |= self.test(run, corpus, machine, share)
            self.shell.act(lambda: write_json(out, {**found, "code": code_version()}, indent=1))

        inputs = [run.folder / FINISHED, *self.test_files(corpus, seed)]
        with self.shell.locked(run.folder / "evaluation"):
            choices = self.choices_of_test()
            self.do_once(run.name, run.folder, "test", choices, inputs, [out], test)
        self.progress.finish(run.name)

    def show(self, runs: Sequence[Run], others: Sequence[Run]) -> None:
        """Print the scores of a model.

        others: runs of a baseline to compare with; may be empty.
        """
        names = [run.record.name for run in [*others, *runs]]
        rows = [row for row in self.content.models if row.title in names]
        self.shell.act(self.print_tables, rows, [*others, *runs], names[0])

    def write(self, rows: Sequence[Row], runs: Sequence[Run], baselines: Sequence[str]) -> None:
        """Write and print the result tables of the runs."""
        baseline, start = baselines[0] if baselines else rows[0].title, self.work / "table"
        self.shell.act(self.print_tables, rows, runs, baseline, start)

    def print_tables(
        self, rows: Sequence[Row], runs: Sequence[Run], baseline: str, start: Path | None = None
    ) -> None:
        """Print the tables of these runs.

        start: if given, also write the tables to files with this prefix, and plot the results.
        """
        results: Results = {}
        of_models: dict[str, list[Run]] = {}
        for run in runs:
            found = read_json(run.folder / RESULT, AGAIN)
            results.setdefault((run.record.name, run.record.size), []).append(found)
            of_models.setdefault(run.record.name, []).append(run)
        tables = self.tables(rows, results, baseline)
        if start:
            write_tables(tables, start)
        print("\n".join(markdown(tables)), flush=True)
        if start:
            try:
                self.draw(rows, results, of_models)
            except ImportError:
                text = "skipped; it requires matplotlib (pip install 'fairseq_posattn[lab]')"
                self.progress.finish("figure", text)
