"""Train and test the models of a recipe that is no translation of a corpus, such as taggers.

The folder of such a recipe has, beside its recipe.toml, a trial.py with a class `Recipe` derived
from Trial. It says how the data are made, how a model is tested, and what stands in the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.lock import locked
from fairseq_posattn.lab.experiments.allowed import Options
from fairseq_posattn.lab.experiments.at_once import run_side_by_side
from fairseq_posattn.lab.experiments.commands import Command
from fairseq_posattn.lab.experiments.machine import Machine, Share, shares
from fairseq_posattn.lab.experiments.recipe import (
    USER_DIR,
    arguments,
    module_beside,
    read_content,
    refuse_unknown,
)
from fairseq_posattn.lab.experiments.runs import FINISHED, Run, RunRecord, fingerprints, named_files
from fairseq_posattn.lab.experiments.training import train_once
from fairseq_posattn.lab.experiments.trial_content import TrialContent, TrialRow
from fairseq_posattn.lab.experiments.trial_tools import TrialTools
from fairseq_posattn.lab.experiments.workplace import Place, Plan
from fairseq_posattn.lab.scoring import plain_tables
from fairseq_posattn.lab.scoring.plain_tables import Table
from fairseq_posattn.work.made import Steps

AGAIN = "delete it and start the recipe again"
TRIAL, RESULT = "trial.py", "result.json"
UPDATES, TOTAL = "max-update", "total-num-update"
Results = dict[tuple[str, str], list[dict[str, Any]]]  # model and corpus -> a result for each seed


class Trial(TrialTools):
    """A trial makes data, and trains and tests the models of its recipe on them.

    A recipe derives its class `Recipe` from this one. It must define `data`, `test` and `tables`,
    and may define the methods that follow them.
    """

    read_in_training: Sequence[str] = ("train.*", "valid.*", "dict*.txt")
    compares = False  # whether the tables test the seeds of the models against those of a baseline

    def __init__(
        self,
        file: Path,
        place: Place,
        plan: Plan,
        machine: Machine,
        at_once: int | None = None,
        chosen: Sequence[str] = (),
    ):
        self.folder = file.parent
        self.content = read_content(TrialContent, file)
        self.place, self.plan, self.at_once, self.chosen = place, plan, at_once, chosen
        self.machine = replace(machine, precision=machine.precision or "fp32")
        if machine.tokens:
            raise InputError(
                f"--tokens {machine.tokens}: the recipe.toml of {self.name} says how large a batch "
                "is; leave it out"
            )
        if plan.last or plan.with_parsing or plan.on_valid:
            raise InputError(
                f"{self.name} does not translate: it has no --last, --with-parsing and --on-valid"
            )

    # What a recipe defines

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Test a trained model, and return what the tables show of it."""
        raise NotImplementedError

    def tables(self, rows: Sequence[TrialRow], results: Results, baseline: str) -> list[Table]:
        """Return the tables of all results."""
        raise NotImplementedError

    # What a recipe may define

    def corpora(self) -> list[str]:
        """Return the names of the corpora whose data are complete."""
        stamps = sorted((self.place.work / "steps").glob("*.json"))
        return [path.stem for path in stamps if "outputs" in read_json(path, AGAIN)]

    def choices_of_test(self) -> list[Any]:
        """Return what was chosen on the command line that changes a test."""
        return []

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Make the data from a corpus; this recipe makes them without one, when it trains."""
        raise InputError(f"{self.name} makes its data itself: start recipes/table.sh {self.name}")

    def make_data(self, corpus: str, seed: int) -> None:
        """Make sure that there are data before a training."""
        if not self.place.shell.dry_run and not self.data(corpus, seed).is_dir():
            raise InputError(
                f"{self.data(corpus, seed)}: there are no data; start recipes/prepare.sh "
                f"{self.name} first"
            )

    def test_files(self, corpus: str, seed: int) -> list[Path]:
        """Return the files that a test reads, beside the model."""
        return sorted(self.data(corpus, seed).glob("test.*"))

    def outputs(self, folder: Path) -> Options:
        """Return options of fairseq-train about further files of a run."""
        return {}

    def draw(self, rows: Sequence[TrialRow], results: Results, runs: dict[str, list[Run]]) -> None:
        """Draw figures of all results; `runs` has those of each model."""

    # What the command line asks for

    def row(self, model: str, size: str | None) -> TrialRow:
        """Return the row of a model."""
        return next(row for row in self.rows(size, [model]) if row.name == model)

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[TrialRow]:
        """Return the rows of the table, and those named beside; unknown ones are refused."""
        if size is not None:
            raise InputError(f"--size {size}: the models of {self.name} have one size only")
        refuse_unknown(names, [row.name for row in self.content.models])
        return [row for row in self.content.models if row.in_table or row.name in names]

    def chosen_corpora(self) -> list[str]:
        """Return the corpora on which models are trained and tested."""
        known = self.corpora()
        if self.place.shell.dry_run:
            return [*(self.chosen or known or ["CORPUS"])]
        if not known:
            raise InputError(
                f"{self.place.work}: there are no data; start recipes/prepare.sh {self.name} first"
            )
        for name in self.chosen:
            if name not in known:
                raise InputError(
                    f"--corpora {name}: there is no such corpus; choose among: {' '.join(known)}"
                )
        return list(dict.fromkeys(self.chosen)) or known

    def train(self, row: TrialRow, seeds: Sequence[int]) -> None:
        """Train a model with each seed on each corpus."""
        self.side_by_side([partial(self.train_one, *job) for job in self.jobs([row], seeds)])

    def evaluate(self, row: TrialRow, seeds: Sequence[int], baseline: object, _: object) -> None:
        """Test a model that was trained, and print its table."""
        if baseline is not None:
            raise InputError(f"{self.name} compares models in recipes/table.sh")
        jobs = self.jobs([row], seeds)
        for *_, run in jobs:
            if not run.is_finished and not self.place.shell.dry_run:
                raise InputError(f"{run.folder}: the training has not ended; start train.sh first")
        self.side_by_side([partial(self.test_one, *job) for job in jobs])
        self.show(jobs, [row], row.name)

    def table(
        self, rows: Sequence[TrialRow], seeds: Sequence[int], baselines: Sequence[str]
    ) -> None:
        """Train and test all models, and write the tables."""
        if len(baselines) > self.compares:
            count = "one --baseline" if self.compares else "no --baseline"
            raise InputError(f"{self.name} compares with {count}")
        jobs = self.jobs(rows, seeds)
        self.side_by_side([partial(self.train_and_test, *job) for job in jobs])
        self.show(jobs, rows, baselines[0] if baselines else rows[0].name, write=True)

    def named(self, folder: str) -> Run:
        """Refuse --run, because a test chooses its run by model, corpus and seed."""
        raise InputError(
            f"--run {folder}: choose a run of {self.name} by MODEL, --corpora and --seed"
        )

    def sweep(self, *_: object) -> None:
        """Refuse to sweep, because only translation recipes have sweeps."""
        raise InputError(f"{self.folder}: the recipe has no [sweep]")

    # How that is done

    def jobs(self, rows: Sequence[TrialRow], seeds: Sequence[int]) -> list[Job]:
        """Return all runs, those of a corpus and a seed one after the other."""
        found = []
        for corpus in self.chosen_corpora():
            for seed in seeds:
                self.make_data(corpus, seed)
                found += [(row, corpus, self.run_of(row, corpus, seed)) for row in rows]
        return found

    def side_by_side(self, jobs: Sequence[Callable[[Machine, Share], None]]) -> None:
        """Do all jobs, several at once where the machine has room for them.

        These models are small: each run has one GPU, where --gpus names no other number.
        """
        machine, parts = shares(self.machine, len(jobs), self.at_once)
        if not machine.cpu and self.machine.gpus is None and machine.devices():
            machine, parts = replace(machine, gpus=1), [Share(part.gpus[:1]) for part in parts]
        run_side_by_side([partial(job, machine) for job in jobs], parts)

    def options_of(self, row: TrialRow, corpus: str, seed: int) -> Options:
        """Return the options of fairseq-train that do not depend on the machine."""
        found = {**self.content.training, **row.training, **row.on.get(corpus, {}), "seed": seed}
        if self.plan.updates:
            if UPDATES not in found:
                raise InputError(
                    f"{self.name} counts epochs, not updates; give -- --max-epoch N in place of "
                    "--updates"
                )
            names = [name for name in (UPDATES, TOTAL) if name in found]
            found |= dict.fromkeys(names, self.plan.updates)
        return found

    def run_of(self, row: TrialRow, corpus: str, seed: int) -> Run:
        """Return the run of a model with a seed on a corpus, by all that makes it."""
        options = self.options_of(row, corpus, seed)
        words = arguments(dict(sorted(options.items()))) + [*self.plan.training]
        if self.plan.precision:
            words += ["--precision", self.plan.precision]
        files = fingerprints([self.data(corpus, seed)], self.read_in_training)
        files |= named_files([*map(str, options.values()), *self.plan.training])
        updates = int(options.get(UPDATES, 0))
        return Run(
            self.place.runs, RunRecord(row.name, corpus, seed, updates, "none", words, files)
        )

    def command_of(self, row: TrialRow, corpus: str, run: Run, machine: Machine) -> Command:
        """Return the command that trains a run."""
        options = self.options_of(row, corpus, run.record.seed)
        if "batch-size" in options:
            options["batch-size"] = shared_out(options["batch-size"], machine.world())
        if "max-tokens" in options:
            options["max-tokens"] //= machine.world()
        everything = {
            "user-dir": USER_DIR,
            "num-workers": 0,
            "log-interval": 100,
            "log-format": "simple",
            **options,
            "no-epoch-checkpoints": True,
            "save-dir": run.folder,
            **machine.options(),
            **self.outputs(run.folder),
        }
        data = self.data(corpus, run.record.seed)
        launch = machine.launch(self.name)
        return [*launch, data, *arguments(everything), *self.plan.training]

    def train_one(
        self, row: TrialRow, corpus: str, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train a run to its end, unless that was done."""
        train_once(
            self.place,
            run,
            lambda: self.command_of(row, corpus, run, machine),
            machine.log_name(),
            share,
            run.record.updates,
        )

    def test_one(
        self, row: TrialRow, corpus: str, run: Run, machine: Machine, share: Share
    ) -> None:
        """Test a run, unless that was done."""
        if self.place.shell.dry_run:
            self.test(run, corpus, machine, share)
            return
        out = run.folder / RESULT

        def test() -> None:
            record = run.record
            about = {"model": record.name, "corpus": corpus, "seed": record.seed}
            found = {**about, **self.test(run, corpus, machine, share), "code": code_version()}
            with written_whole(out) as file:
                json.dump(found, file, indent=1)

        inputs = [run.folder / FINISHED, *self.test_files(corpus, run.record.seed)]
        with locked(run.folder / "evaluation", wait=True):
            steps = Steps(run.folder, partial(self.place.board.show, run.name, new=True))
            steps.do("test", self.choices_of_test(), inputs, [out], test)
        self.place.board.finish(run.name)

    def train_and_test(
        self, row: TrialRow, corpus: str, run: Run, machine: Machine, share: Share
    ) -> None:
        """Train a run, and test it."""
        self.train_one(row, corpus, run, machine, share)
        self.test_one(row, corpus, run, machine, share)

    def show(
        self, jobs: Sequence[Job], rows: Sequence[TrialRow], baseline: str, write: bool = False
    ) -> None:
        """Print the tables of these runs, and write them into files as well."""
        if self.place.shell.dry_run:
            return
        results: Results = {}
        runs: dict[str, list[Run]] = {}
        for row, corpus, run in jobs:
            found = read_json(run.folder / RESULT, AGAIN)
            results.setdefault((row.name, corpus), []).append(found)
            runs.setdefault(row.name, []).append(run)
        tables = self.tables(rows, results, baseline)
        if write:
            plain_tables.write(tables, self.place.work / "table")
        print("\n".join(plain_tables.markdown(tables)), flush=True)
        if write:
            try:
                self.draw(rows, results, runs)
            except ImportError:
                text = "there is none: it needs matplotlib (pip install 'fairseq_posattn[lab]')"
                self.place.board.finish("figure", text)


Job = tuple[TrialRow, str, Run]


def shared_out(sentences: int, processes: int) -> int:
    """Return how many sentences of a batch each process gets, which must be equally many."""
    if sentences % processes:
        raise InputError(
            f"{processes} processes cannot share the {sentences} sentences of a batch equally; "
            f"give --gpus (or --processes) a number that divides {sentences}"
        )
    return sentences // processes


def trial_class(file: Path) -> type[Trial] | None:
    """Return the class that a recipe's trial.py defines, or None if it has no such file."""
    module = module_beside(file.parent / TRIAL, f"trial_of_{file.parent.name}")
    if module is None:
        return None
    found = getattr(module, "Recipe", None)
    if not (isinstance(found, type) and issubclass(found, Trial)):
        raise InputError(
            f"{file.parent / TRIAL}: there is no class Recipe derived from Trial; define one"
        )
    return found
