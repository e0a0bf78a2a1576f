"""The base class of experiments, with the steps train, evaluate, table and sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command, Shell
from fairseq_posattn.experiments.machine import Machine, Share, run_side_by_side, shares
from fairseq_posattn.experiments.recipe import arguments, recipe_file, refuse_chosen
from fairseq_posattn.experiments.runs import (
    FINISHED,
    Run,
    RunRecord,
    fingerprints,
    named_files,
)
from fairseq_posattn.experiments.training import train_once
from fairseq_posattn.files.progress import ProgressDisplay
from fairseq_posattn.jobs.step_records import Steps

Seeds = Sequence[int]
OURS = {  # options that an experiment sets itself, and what to do instead
    "--seed": "use --seed or --seeds before --",
    "--max-update": "use --updates before --",
    "--save-dir": "use --work before --",
}


class Experiment:
    """Trains and tests the models of a recipe with one or more seeds.

    Translation recipes use the subclass `Translation`; recipes for other tasks define a subclass of
    `Trial`. A subclass implements the methods below, and `rows` and `row`, which return the
    `[[models]]` entries of recipe.toml.

    without: error messages for options that the subclass does not support, by OPTION or
        STEP.OPTION. In a message, {} is replaced by the value of the option and {name} by the name
        of the recipe.
    """

    without: Mapping[str, str] = {}
    read_in_training: Sequence[str] = ("train.*", "valid.*", "dict*.txt")

    def __init__(self, request: Any):
        """Create the experiment for a step of a recipe, such as `Table(recipe="toy")`."""
        self.file = recipe_file(request.recipe)
        self.folder = self.file.parent
        self.work = (request.work or self.folder / "work").absolute()
        self.settings = request
        self.machine = replace(
            request.machine,
            tokens=getattr(request, "tokens", None),
            precision=getattr(request, "precision", None),
            dry_run=request.dry_run,
        )
        self.shell, self.progress = Shell(request.dry_run), ProgressDisplay()
        self.steps: dict[tuple[Path, str], Steps] = {}
        self.refuse(request.command.split()[-1], vars(request))

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def runs(self) -> Path:
        return self.work / "runs"

    def refuse(self, step: str, asked: Mapping[str, Any]) -> None:
        """Raise an InputError if an option is set that this kind of recipe does not support."""
        for option, told in self.without.items():
            of_step, _, name = option.rpartition(".")
            value = asked.get(name)
            if value and of_step in ("", step):
                shown = " ".join(value) if isinstance(value, list) else value
                raise InputError(told.format(shown, name=self.name))

    # What subclasses implement

    def planned(self, rows: Sequence[Any], seeds: Seeds) -> list[tuple[Any, Run]]:
        """Make sure that the data exist, and return one (model, run) pair per model and seed."""
        raise NotImplementedError

    def command_of(self, row: Any, run: Run, machine: Machine) -> Command:
        """Return the command that trains a run."""
        raise NotImplementedError

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Test a run unless it has been tested already.

        shown: whether to store examples for the report, which is done for one seed per model.
        """
        raise NotImplementedError

    def show(self, row: Any, runs: Sequence[Run], others: Sequence[Run]) -> None:
        """Print the scores of a model.

        others: runs of a baseline to compare with; may be empty.
        """
        raise NotImplementedError

    def write(self, rows: Sequence[Any], runs: Sequence[Run], baselines: Sequence[str]) -> None:
        """Write and print the result tables of the runs."""
        raise NotImplementedError

    # What subclasses may override

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate a model with several values of an option, and plot the scores."""
        raise InputError(
            f"{self.folder}: the recipe has no [sweep] table; add one to its recipe.toml"
        )

    def sized(self, asked: str | None) -> str | None:
        """Return the model size to use, given the size that the user requested, if any."""
        return asked

    def shares(self, jobs: int) -> tuple[Machine, list[Share]]:
        """Divide the GPUs or CPU cores of the machine among parallel jobs."""
        return shares(self.machine, jobs)

    # The steps

    def train(self, row: Any, seeds: Seeds) -> None:
        self.side_by_side([partial(self.train_one, *job) for job in self.planned([row], seeds)])

    def evaluate(self, row: Any, runs: Sequence[Run], baseline: Any) -> None:
        """Test the runs of a model and print their scores, optionally compared with a baseline.

        row: the model, or None if the user selected a run instead.
        """
        of_runs = [run.record.seed for run in runs]
        others = self.trained(baseline, of_runs) if baseline else []
        jobs = [(run, run is runs[0]) for run in [*others, *runs]]
        self.side_by_side([partial(self.test_one, *job) for job in jobs])
        self.show(row, runs, others)

    def table(self, rows: Sequence[Any], seeds: Seeds, baselines: Sequence[str]) -> None:
        self.write(rows, self.finished(rows, seeds), baselines)

    # The implementation of the steps

    def do_once(
        self,
        about: str,
        folder: Path,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Run a step unless it has been completed already with the same choices and inputs.

        about: name of the line in the progress display.
        """
        if self.shell.dry_run:
            action()
            return
        if (folder, about) not in self.steps:  # reused, because it caches checksums
            self.steps[folder, about] = Steps(folder, partial(self.progress.show, about, new=True))
        self.steps[folder, about].do(name, choices, inputs, outputs, action)

    def run_with(
        self,
        name: str,
        size: str,
        seed: int,
        updates: int,
        options: Options,
        data: Sequence[Path],
        trees: str = "none",
        tested: str = "",
    ) -> Run:
        """Return the run that is identified by its options and by the files that it reads.

        options: options of fairseq-train that do not depend on the machine.
        data: the shards of the data folder.
        """
        training, precision = self.settings.rest, self.settings.precision
        refuse_chosen(training, OURS)
        words = [*arguments(dict(sorted(options.items()))), *training]
        words += ["--precision", precision] if precision else []
        files = fingerprints(data, self.read_in_training) | named_files(words)
        record = RunRecord(name, size, seed, updates, trees, words, files, tested=tested)
        return Run(self.runs, record)

    def trained(self, row: Any, seeds: Seeds) -> list[Run]:
        """Return the runs of a model; raise an InputError if one is not completely trained."""
        runs = [run for _, run in self.planned([row], seeds)]
        for run in runs:
            if not self.shell.is_there(run.folder / FINISHED):
                raise InputError(f"{run.folder}: the training is not complete; run train.sh first")
        return runs

    def finished(self, rows: Sequence[Any], seeds: Seeds) -> list[Run]:
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
        machine, parts = self.shares(len(jobs))
        run_side_by_side([partial(job, machine) for job in jobs], parts)

    def train_one(self, row: Any, run: Run, machine: Machine, share: Share) -> None:
        command = partial(self.command_of, row, run, machine)
        train_once(self, run, command, machine, share)

    def train_and_test(
        self, shown: int, row: Any, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train and test a run; store examples for the report if its seed equals `shown`."""
        self.train_one(row, run, machine, share)
        self.test_one(run, run.record.seed == shown, machine, share)
