"""Do what the doors of the recipes offer: prepare, train, evaluate, table and sweep."""

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
    """An experiment trains and tests the models of a recipe with one or several seeds.

    Each kind of recipe derives its class from this one, and fills the hooks: the translation of a
    corpus in `translation`, others in `trials`. What a kind cannot do is refused here.

    without: the options of the doors that the kind has no use for, alone or as STEP.OPTION, and
        what the user is told, where {} is the value and {name} the name of the recipe.
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
        """Refuse options that this kind of recipe has no use for."""
        for option, told in self.without.items():
            of_step, _, name = option.rpartition(".")
            value = asked.get(name)
            if value and of_step in ("", step):
                shown = " ".join(value) if isinstance(value, list) else value
                raise InputError(told.format(shown, name=self.name))

    # The hooks that each kind fills

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Any]:
        """Return the models of the table, of a size or all; unknown names are refused."""
        raise NotImplementedError

    def row(self, model: str, size: str | None) -> Any:
        """Return the model of this name."""
        raise NotImplementedError

    def planned(self, rows: Sequence[Any], seeds: Seeds) -> list[tuple[Any, Run]]:
        """Make sure of the data, and return all runs of the models, each beside its model."""
        raise NotImplementedError

    def command_of(self, row: Any, run: Run, machine: Machine) -> Command:
        """Return the command that trains a run."""
        raise NotImplementedError

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Test a run, unless that was done.

        shown: says whether it is the run, of all seeds, whose examples are shown.
        """
        raise NotImplementedError

    def show(self, row: Any, runs: Sequence[Run], others: Sequence[Run]) -> None:
        """Print the figures of a model, beside those of a baseline if there are others."""
        raise NotImplementedError

    def write(self, rows: Sequence[Any], runs: Sequence[Run], baselines: Sequence[str]) -> None:
        """Write the tables of all runs, and print them."""
        raise NotImplementedError

    # The hooks that a kind may fill

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Make the data from a corpus."""
        raise InputError(f"{self.name} makes its data itself: start {called('table', self.name)}")

    def take_only(self, models: Sequence[str]) -> None:
        """Leave out what the other models of the recipe need."""
        raise InputError(f"{self.name} makes the same data for all models; leave out --models")

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate a model with several values of an option, and draw the scores."""
        raise InputError(f"{self.folder}: the recipe has no [sweep]")

    def named(self, folder: str) -> Run:
        """Return the run in a folder of this name."""
        raise NotImplementedError

    def sized(self, asked: str | None) -> str | None:
        """Return the size of the models to take, where the user asks for this one or for none."""
        return asked

    def shares(self, jobs: int) -> tuple[Machine, list[Share]]:
        """Return how so many jobs share the machine."""
        return shares(self.machine, jobs, self.at_once)

    # What the doors ask for

    def train(self, row: Any, seeds: Seeds) -> None:
        """Train a model with each seed."""
        self.side_by_side([partial(self.train_one, *job) for job in self.planned([row], seeds)])

    def evaluate(self, row: Any, seeds: Seeds, baseline: Any, folder: str | None) -> None:
        """Test the runs of a model, and show their figures together, against a baseline or alone.

        row: the model, or None where a folder names the run.
        """
        runs = self.trained(row, seeds) if folder is None else [self.named(folder)]
        of_runs = [run.record.seed for run in runs]
        others = self.trained(baseline, of_runs) if baseline else []
        jobs = [(run, run is runs[0]) for run in [*others, *runs]]
        self.side_by_side([partial(self.test_one, *job) for job in jobs])
        self.show(row, runs, others)

    def table(self, rows: Sequence[Any], seeds: Seeds, baselines: Sequence[str]) -> None:
        """Train and test all models, and write the tables."""
        self.write(rows, self.finished(rows, seeds), baselines)

    # How that is done

    def trained(self, row: Any, seeds: Seeds) -> list[Run]:
        """Return the runs of a model, whose trainings must have ended."""
        runs = [run for _, run in self.planned([row], seeds)]
        for run in runs:
            if not self.place.shell.is_there(run.folder / FINISHED):
                raise InputError(f"{run.folder}: the training has not ended; start train.sh first")
        return runs

    def finished(self, rows: Sequence[Any], seeds: Seeds) -> list[Run]:
        """Train and test all models with all seeds, and return the runs."""
        jobs = self.planned(rows, seeds)
        for tested in (False, True):  # runs that are tested otherwise take trainings of the others
            some = [job for job in jobs if bool(job[1].record.tested) == tested]
            if some:
                self.side_by_side([partial(self.train_and_test, seeds[0], *job) for job in some])
        return [run for _, run in jobs]

    def side_by_side(self, jobs: Sequence[Callable[[Machine, Share], None]]) -> None:
        """Do all jobs, several at once where the machine has room for them."""
        machine, parts = self.shares(len(jobs))
        run_side_by_side([partial(job, machine) for job in jobs], parts)

    def train_one(self, row: Any, run: Run, machine: Machine, share: Share) -> None:
        """Train a run to its end."""
        command = partial(self.command_of, row, run, machine)
        train_once(self.place, run, command, machine, share)

    def train_and_test(
        self, shown: int, row: Any, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train a run, and test it; the examples are those of the seed `shown`."""
        self.train_one(row, run, machine, share)
        self.test_one(run, run.record.seed == shown, machine, share)
