"""Train and test the models of recipes for tasks other than translation, such as tagging.

In addition to its recipe.toml, such a recipe contains a trial.py with a class `Recipe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command, called
from fairseq_posattn.experiments.experiment import Seeds
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe import (
    USER_DIR,
    arguments,
    module_beside,
    read_content,
    refuse_unknown,
)
from fairseq_posattn.experiments.recipe_content import TrialContent, TrialRow
from fairseq_posattn.experiments.runs import FINISHED, Run
from fairseq_posattn.experiments.training import TOTAL
from fairseq_posattn.experiments.trial_tools import TrialTools
from fairseq_posattn.files.files import read_json, write_json
from fairseq_posattn.files.version import code_version
from fairseq_posattn.scoring.tables import Table, markdown, write_tables

AGAIN = "delete it and start the recipe again"
TRIAL, RESULT = "trial.py", "result.json"
UPDATES = "max-update"
NO_TRANSLATION = (
    "{name} is not a translation recipe; leave out --last, --with-parsing, --on-valid, --keep and "
    "--from-study"
)
WITHOUT = {  # options that a trial does not support
    "tokens": "--tokens {} is set in the recipe.toml of {name}; omit this option",
    "last": NO_TRANSLATION,
    "with_parsing": NO_TRANSLATION,
    "on_valid": NO_TRANSLATION,
    "size": "--size {} does not apply, as the models of {name} have one size; omit this option",
    "run": "--run {} does not apply to {name}; select a run by MODEL, --corpora and --seed",
    "keep": NO_TRANSLATION,
    "from_study": NO_TRANSLATION,
    "evaluate.baseline": "{name} compares models only in recipes/table.sh; give --baseline there",
}
Results = dict[tuple[str, str], list[dict[str, Any]]]  # model and corpus -> one result per seed


class Trial(TrialTools):
    """Prepares data, and trains and tests the models of a recipe.

    The trial.py of a recipe derives its class `Recipe` from this class. `Recipe` must implement
    `data`, `test` and `tables`. It may override `corpora`, `choices_of_test`, `make_data`,
    `test_files`, `outputs` and `draw`.

        class Recipe(Trial):
            def data(self, corpus, seed):
                return self.work / "data" / corpus

            def test(self, run, corpus, machine, share):
                self.program("validate", {"path": run.folder / "checkpoint_best.pt"}, ...)
                return {"accuracy": ...}

            def tables(self, rows, results, baseline):
                return [Table(...)]

    The record of a run stores the name of the corpus as `size`.
    """

    without = WITHOUT
    compares = False  # whether the tables compare models with a baseline

    def __init__(self, request: Any):
        super().__init__(request)
        self.machine = replace(self.machine, precision=self.machine.precision or "fp32")
        self.content = read_content(TrialContent, self.file)

    # Methods that a recipe must implement

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Test a trained model; return its results for the tables, as JSON values."""
        raise NotImplementedError

    def tables(self, rows: Sequence[TrialRow], results: Results, baseline: str) -> list[Table]:
        """Return the result tables; `results` contains one return value of `test` per seed."""
        raise NotImplementedError

    # Methods that a recipe may override

    def corpora(self) -> list[str]:
        """Return the names of the corpora whose data are complete."""
        stamps = sorted((self.work / "steps").glob("*.json"))
        return [path.stem for path in stamps if "outputs" in read_json(path, AGAIN)]

    def choices_of_test(self) -> list[Any]:
        """Return the settings that affect a test; if they change, the test is repeated."""
        return []

    def make_data(self, corpus: str, seed: int) -> None:
        """Create the data of a run; the default method only checks that the data exist."""
        if not self.shell.is_there(self.data(corpus, seed)):
            raise InputError(
                f"{self.data(corpus, seed)}: no data; run recipes/prepare.sh {self.name} first"
            )

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Create the data of recipes that have a step `prepare`."""
        raise InputError(
            f"{self.name} has no step prepare, because it makes its data itself; run "
            f"{called('table', self.name)}"
        )

    def test_files(self, corpus: str, seed: int) -> list[Path]:
        """Return the files that a test reads, except the model."""
        return sorted(self.data(corpus, seed).glob("test.*"))

    def outputs(self, folder: Path) -> Options:
        """Return options of fairseq-train that specify additional output files of a run."""
        return {}

    def draw(self, rows: Sequence[TrialRow], results: Results, runs: dict[str, list[Run]]) -> None:
        """Plot the results; `runs` contains the runs of each model."""

    # The hooks of an experiment

    def row(self, model: str, size: str | None) -> TrialRow:
        return next(row for row in self.rows(size, [model]) if row.name == model)

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[TrialRow]:
        """Return the models of the table; raise an InputError for unknown names.

        names: models to include even if the table does not contain them by default.
        """
        refuse_unknown(names, [row.name for row in self.content.models])
        return [row for row in self.content.models if row.in_table or row.name in names]

    def take_only(self, models: Sequence[str]) -> None:
        raise InputError(f"{self.name} makes the same data for all models; leave out --models")

    def chosen_corpora(self) -> list[str]:
        """Return the corpora specified by --corpora (default: all corpora with complete data)."""
        known = self.corpora()
        self.shell.act(self.check_corpora, known)
        return list(dict.fromkeys(self.settings.corpora or ())) or known or ["CORPUS"]

    def check_corpora(self, known: Sequence[str]) -> None:
        if not known:
            raise InputError(f"{self.work}: no data; run recipes/prepare.sh {self.name} first")
        for name in self.settings.corpora or ():
            if name not in known:
                raise InputError(
                    f"--corpora contains the unknown corpus {name}; choose among {' '.join(known)}"
                )

    def planned(self, rows: Sequence[TrialRow], seeds: Seeds) -> list[tuple[TrialRow, Run]]:
        found = []
        for corpus in self.chosen_corpora():
            for seed in seeds:
                self.make_data(corpus, seed)
                found += [(row, self.run_of(row, corpus, seed)) for row in rows]
        return found

    def shares(self, jobs: int) -> tuple[Machine, list[Share]]:
        """Divide the machine among parallel jobs; without --gpus, each job uses at most one GPU."""
        machine, parts = super().shares(jobs)
        if not machine.cpu and self.machine.gpus is None and machine.devices():
            machine, parts = replace(machine, gpus=1), [Share(part.gpus[:1]) for part in parts]
        return machine, parts

    def options_of(self, row: TrialRow, corpus: str, seed: int) -> Options:
        """Return the options of fairseq-train that do not depend on the machine."""
        found = {**self.content.training, **row.training, **row.on.get(corpus, {}), "seed": seed}
        if self.settings.updates:
            if UPDATES not in found:
                raise InputError(
                    f"{self.name} counts epochs, not updates; replace --updates by -- --max-epoch N"
                )
            names = [name for name in (UPDATES, TOTAL) if name in found]
            found |= dict.fromkeys(names, self.settings.updates)
        return found

    def run_of(self, row: TrialRow, corpus: str, seed: int) -> Run:
        options, data = self.options_of(row, corpus, seed), [self.data(corpus, seed)]
        return self.run_with(row.name, corpus, seed, int(options.get(UPDATES, 0)), options, data)

    def command_of(self, row: TrialRow, run: Run, machine: Machine) -> Command:
        corpus, seed = run.record.size, run.record.seed
        options = self.options_of(row, corpus, seed)
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
        words = [*arguments(everything), *self.settings.rest]
        return [*machine.launch(self.name), self.data(corpus, seed), *words]

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
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

    def table(self, rows: Sequence[TrialRow], seeds: Seeds, baselines: Sequence[str]) -> None:
        if len(baselines) > self.compares:
            count = "only one" if self.compares else "no"
            raise InputError(f"{self.name} supports {count} --baseline; use fewer")
        super().table(rows, seeds, baselines)

    def show(self, row: TrialRow, runs: Sequence[Run], others: Sequence[Run]) -> None:
        self.shell.act(self.print_tables, [row], runs, row.name)

    def write(
        self, rows: Sequence[TrialRow], runs: Sequence[Run], baselines: Sequence[str]
    ) -> None:
        baseline, start = baselines[0] if baselines else rows[0].name, self.work / "table"
        self.shell.act(self.print_tables, rows, runs, baseline, start)

    def print_tables(
        self,
        rows: Sequence[TrialRow],
        runs: Sequence[Run],
        baseline: str,
        start: Path | None = None,
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


def shared_out(sentences: int, processes: int) -> int:
    """Return the number of sentences per process; raise an InputError if it is not an integer."""
    if sentences % processes:
        raise InputError(
            f"{processes} processes cannot share the {sentences} sentences of a batch equally; "
            f"give --gpus (or --processes) a divisor of {sentences}"
        )
    return sentences // processes


def trial_class(file: Path) -> type[Trial] | None:
    """Return the class `Recipe` of a recipe's trial.py, or None if there is no trial.py."""
    module = module_beside(file.parent / TRIAL, f"trial_of_{file.parent.name}")
    if module is None:
        return None
    found = getattr(module, "Recipe", None)
    if not (isinstance(found, type) and issubclass(found, Trial)):
        raise InputError(
            f"{file.parent / TRIAL}: the file contains no class Recipe derived from Trial; define "
            "one"
        )
    return found
