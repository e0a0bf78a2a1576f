"""The base class of experiments, with the steps prepare, train, evaluate, table and sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments.commands import Command, called
from fairseq_posattn.lab.experiments.machine import Machine, Share, run_side_by_side, shares
from fairseq_posattn.lab.experiments.runs import FINISHED, Run
from fairseq_posattn.lab.experiments.training import train_once
from fairseq_posattn.lab.experiments.workplace import Place, Plan

Seeds = Sequence[int]


class Experiment:
    """Trains and tests the models of a recipe with one or more seeds.

    Subclasses implement the hooks: `Translation` for translation recipes, and `Trial` for recipes
    for other tasks. Steps that a subclass does not support raise an InputError.

    without: error messages for options that the subclass does not support, by OPTION or
        STEP.OPTION. In a message, {} is replaced by the value of the option and {name} by the name
        of the recipe.
    """

    without: Mapping[str, str] = {}

    def __init__(
        self,
        file: Path,
        place: Place,
        plan: Plan,
        machine: Machine,
        at_once: int | None = None,
        chosen: Sequence[str] = (),
    ):
        self.folder, self.place, self.plan = file.parent, place, plan
        self.machine, self.at_once, self.chosen = machine, at_once, chosen

    @property
    def name(self) -> str:
        return self.folder.name

    def refuse(self, step: str, asked: Mapping[str, Any]) -> None:
        """Raise an InputError if an option is set that this kind of recipe does not support."""
        for option, told in self.without.items():
            of_step, _, name = option.rpartition(".")
            value = asked.get(name)
            if value and of_step in ("", step):
                shown = " ".join(value) if isinstance(value, list) else value
                raise InputError(told.format(shown, name=self.name))

    # Hooks that subclasses must implement

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Any]:
        """Return the models of the table; raise an InputError for unknown names.

        size: return only models of this size (default: all sizes).
        names: models that the user requested.
        """
        raise NotImplementedError

    def row(self, model: str, size: str | None) -> Any:
        raise NotImplementedError

    def planned(self, rows: Sequence[Any], seeds: Seeds) -> list[tuple[Any, Run]]:
        """Make sure that the data exist, and return one (model, run) pair per model and seed."""
        raise NotImplementedError

    def command_of(self, row: Any, run: Run, machine: Machine) -> Command:
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

    # Hooks that subclasses may implement

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Build the data folders from a corpus."""
        raise InputError(
            f"{self.name} has no step prepare, because it makes its data itself; run "
            f"{called('table', self.name)}"
        )

    def take_only(self, models: Sequence[str]) -> None:
        """Restrict `prepare` to the data that these models need."""
        raise InputError(f"{self.name} makes the same data for all models; leave out --models")

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate a model with several values of an option, and plot the scores."""
        raise InputError(
            f"{self.folder}: the recipe has no [sweep] table; add one to its recipe.toml"
        )

    def named(self, folder: str) -> Run:
        """Return the run whose folder has this name."""
        raise NotImplementedError

    def sized(self, asked: str | None) -> str | None:
        """Return the model size to use.

        asked: size that the user requested, if any.
        """
        return asked

    def shares(self, jobs: int) -> tuple[Machine, list[Share]]:
        """Divide the GPUs or CPU cores of the machine among parallel jobs."""
        return shares(self.machine, jobs, self.at_once)

    # The steps

    def train(self, row: Any, seeds: Seeds) -> None:
        self.side_by_side([partial(self.train_one, *job) for job in self.planned([row], seeds)])

    def evaluate(self, row: Any, seeds: Seeds, baseline: Any, folder: str | None) -> None:
        """Test the runs of a model and print their scores, optionally compared with a baseline.

        row: the model, or None if `folder` specifies a run.
        """
        runs = self.trained(row, seeds) if folder is None else [self.named(folder)]
        of_runs = [run.record.seed for run in runs]
        others = self.trained(baseline, of_runs) if baseline else []
        jobs = [(run, run is runs[0]) for run in [*others, *runs]]
        self.side_by_side([partial(self.test_one, *job) for job in jobs])
        self.show(row, runs, others)

    def table(self, rows: Sequence[Any], seeds: Seeds, baselines: Sequence[str]) -> None:
        self.write(rows, self.finished(rows, seeds), baselines)

    # The implementation of the steps

    def trained(self, row: Any, seeds: Seeds) -> list[Run]:
        """Return the runs of a model; raise an InputError if one is not completely trained."""
        runs = [run for _, run in self.planned([row], seeds)]
        for run in runs:
            if not self.place.shell.is_there(run.folder / FINISHED):
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
        train_once(self.place, run, command, machine, share)

    def train_and_test(
        self, shown: int, row: Any, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train and test a run; store examples for the report if its seed equals `shown`."""
        self.train_one(row, run, machine, share)
        self.test_one(run, run.record.seed == shown, machine, share)
