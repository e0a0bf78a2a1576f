"""Train and evaluate the models of a translation recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.experiments.commands import Command, python
from fairseq_posattn.lab.experiments.corpora import references
from fairseq_posattn.lab.experiments.evaluating import evaluate
from fairseq_posattn.lab.experiments.experiment import Experiment, Seeds
from fairseq_posattn.lab.experiments.machine import Machine, Share, visible_devices
from fairseq_posattn.lab.experiments.preparing import prepare
from fairseq_posattn.lab.experiments.recipe import arguments, read_recipe, refuse_unknown
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.experiments.reproducibility import note_preparing, write_page
from fairseq_posattn.lab.experiments.runs import (
    RECORD,
    Run,
    files_in,
    fingerprint_of,
    one_run,
    runs_in,
)
from fairseq_posattn.lab.experiments.scoring import check_scoring, score, signature, statistics
from fairseq_posattn.lab.experiments.sizes import DEMO
from fairseq_posattn.lab.experiments.study import (
    STUDY,
    Kept,
    check_pools,
    check_references,
    check_signatures,
    keep,
    kept,
    rows_of,
)
from fairseq_posattn.lab.experiments.tables import (
    Results,
    lines_of,
    main_of,
    table_of,
    write_parts,
    write_sweep,
)
from fairseq_posattn.lab.experiments.training import command_of, run_of
from fairseq_posattn.lab.experiments.workplace import Place, Plan, Workplace
from fairseq_posattn.lab.scoring.tables import write_tables

WITHOUT = {"corpora": "--corpora {} does not apply to a recipe with one corpus; omit this option"}


class Translation(Experiment):
    """An experiment whose models translate the test sets of a corpus."""

    without = WITHOUT
    place: Workplace

    def __init__(self, file: Path, place: Place, plan: Plan, *machine: Any):
        recipe = read_recipe(str(file.parent))
        workplace = Workplace(place.work, place.shell, place.board, recipe=recipe)
        super().__init__(file, workplace, plan, *machine)

    def sized(self, asked: str | None) -> str | None:
        """Return the requested size; by default, select `demo` and the CPU if no GPU is visible."""
        machine = self.machine
        chosen = (
            self.plan.from_study
            or machine.cpu
            or machine.gpus is not None
            or asked not in (None, DEMO)
        )
        if chosen or DEMO not in self.place.content.sizes or visible_devices():
            return asked
        self.machine = replace(machine, cpu=True)
        updates = self.plan.updates or self.place.content.sizes[DEMO].updates
        say(
            f"no GPU is visible, so models of size {DEMO} are trained on the CPU, for {updates:,} "
            "updates each; to change this, use --size and --cpu or --gpus"
        )
        return DEMO

    def row(self, model: str, size: str | None) -> Row:
        return self.place.recipe.row(model, size)

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Row]:
        """Return the models of a size, or of all sizes; raise an InputError for unknown names."""
        rows = self.place.recipe.rows(size)
        if self.plan.from_study:
            rows = list(rows_of(self.kept(size), rows))
        refuse_unknown(names, [row.title for row in rows])
        return rows

    def planned(self, rows: Sequence[Row], seeds: Seeds) -> list[tuple[Row, Run]]:
        return [(row, run_of(self.place, row, seed, self.plan)) for seed in seeds for row in rows]

    def command_of(self, row: Row, run: Run, machine: Machine) -> Command:
        return command_of(self.place, run, row, self.plan, machine)

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Translate the test sets with a run; store examples for the report only if `shown`."""
        plan = self.plan if shown else replace(self.plan, examples=0)
        evaluate(self.place, run, plan, machine, share)

    def take_only(self, models: Sequence[str]) -> None:
        recipe = self.place.recipe
        refuse_unknown(models, [row.title for row in recipe.content.models])
        rows = [row for row in recipe.content.models if row.title in models]
        self.place.recipe = replace(recipe, content=replace(recipe.content, models=rows))

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        prepare(self.place, source, any_size, rest)
        self.place.shell.act(note_preparing, self.place, self.plan)

    def trained(self, row: Row, seeds: Seeds) -> list[Run]:
        """Return the runs of a model that were trained with the given options.

        If no options are given, the existing runs are returned, provided that they were all trained
        with the same options.
        """
        plan = self.plan
        if plan.training or plan.updates or plan.precision:
            return super().trained(row, seeds)

        def only() -> list[Run]:
            return [
                one_run(
                    self.place.runs, row.system, seed, partial(run_of, self.place, row, seed, plan)
                )
                for seed in seeds
            ]

        found = self.place.shell.act(only) or super().trained(row, seeds)
        for run in found:
            run.record.refuse_another_training(found[0].record)
        return found

    def named(self, folder: str) -> Run:
        """Return the finished run in a folder; raise an InputError if there is none."""
        name = Path(folder).name
        found = [run for run in runs_in(self.place.runs) if run.folder.name == name]
        if not found or not found[0].is_finished:
            raise InputError(
                f"{self.place.runs / name}: the folder contains no finished run with a {RECORD}; "
                "select another run with --run"
            )
        return found[0]

    def finished(self, rows: Sequence[Row], seeds: Seeds) -> list[Run]:
        """Train and evaluate all models with all seeds; if `from_study`, return the stored runs."""
        self.place.shell.act(check_scoring, self.place)
        if self.plan.from_study:
            found = self.kept(None, seeds)
            if absent := set(seeds) - {run.record.seed for run in found}:
                raise InputError(f"no run with seed {min(absent)} is stored; change --seeds")
            there = {run.record.system for run in found}
            for row in rows:
                if row.system not in there:
                    raise InputError(
                        f"{row.title}: no run with one of these --seeds is stored; choose other "
                        "seeds, or leave this model out of --models"
                    )
            found = [run for run in found if run.record.system in {row.system for row in rows}]
            check_pools(found)
            self.place.shell.act(lambda: check_references(found, self.references()))
            self.place.shell.act(check_signatures, found, partial(signature, self.place))
            return [*found]
        return super().finished(rows, seeds)

    def kept(self, size: str | None, seeds: Seeds = ()) -> list[Kept]:
        """Return the stored runs, optionally only those with this size and one of these seeds."""
        return [
            run
            for run in kept(self.place.recipe.folder / STUDY, self.place.work / STUDY)
            if size in (None, run.record.size) and (not seeds or run.record.seed in seeds)
        ]

    def show(self, row: Row | None, runs: Sequence[Run], others: Sequence[Run]) -> None:
        for test in self.place.subsets(self.plan):
            path = score(self.place, runs, others, test, self.plan)
            self.place.shell.act(print_scores, path)

    def write(self, rows: Sequence[Row], runs: Sequence[Run], baselines: Sequence[str]) -> None:
        tests = list(self.place.subsets(self.plan))
        results: Results = {}
        for row in rows:
            for test in tests:
                results |= self.scored(row, rows, runs, test, baselines)
        first: dict[tuple[str, str], Path] = {}
        for (system, test, _), path in results.items():
            first.setdefault((system, test), path)
        options = ("--title", self.place.content.title, "--out", self.place.work / "report.html")
        self.place.shell.run(python("fairseq_posattn.cli.report", *first.values(), *options))

        def write() -> None:
            lines = lines_of(rows, tests, results, baselines or first_of_sizes(rows))
            print("\n".join(write_tables([table_of(lines)], self.place.work / "table")))
            published = self.place.content.evaluation.published
            write_parts(first.values(), published, self.place.work / "subsets")
            write_page(self.place, self.plan, lines, runs)

        self.place.shell.act(write)
        if self.plan.keep:
            self.place.shell.act(self.keep, runs, tests)

    def keep(self, runs: Sequence[Run], tests: Sequence[str]) -> None:
        """Store the results of all runs in the recipe, together with the decoding settings."""
        evaluation = self.place.content.evaluation
        translated = {
            name: {
                "averaged": self.plan.last or size.averaged,
                "beam": evaluation.beam,
                "lenpen": evaluation.lenpen,
            }
            for name, size in self.place.content.sizes.items()
        }
        results = [
            (run, {test: statistics(self.place, run, test) for test in tests}) for run in runs
        ]
        keep(self.place.recipe.folder / STUDY, results, self.references(), translated)

    def references(self) -> dict[str, list[str]]:
        found = {}
        for test in self.place.content.corpus.tests:
            files = files_in(arguments(references(self.place.recipe, self.place.raw, test)))
            found[test] = [fingerprint_of(Path(file))["sha256"] for file in files]
        return found

    def scored(
        self,
        row: Row,
        rows: Sequence[Row],
        runs: Sequence[Run],
        test: str,
        baselines: Sequence[str],
    ) -> Results:
        """Compare a model with each baseline of its size on a test set; return the JSON files."""
        of_size = {other.title: other for other in rows if other.size == row.size}
        others = [of_size[name] for name in baselines or list(of_size)[:1] if name in of_size]
        compared: list[Row | None] = [other for other in others if other.system != row.system]
        found: Results = {}
        for other in compared or [None]:
            against = of_system(runs, other.system) if other else []
            path = score(self.place, of_system(runs, row.system), against, test, self.plan)
            found[row.system, test, other.title if other else None] = path
        return found

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate the models of the recipe's sweep, and plot their scores.

        size: size of the models (default: the first size of the recipe).
        """
        size = self.place.recipe.size(size)
        sweep = self.place.content.sweep
        if sweep is None:
            super().sweep(size, seeds)
            return
        self.plan = replace(self.plan, on_valid=True, examples=0)
        [test] = self.place.subsets(self.plan)
        baseline = Row(sweep.baseline, size)
        points = {(s.label, v): s.row(v, size) for s in sweep.series for v in s.values}
        rows = [baseline, *points.values()]
        runs = self.finished(rows, seeds)
        paths = {
            row.system: score(self.place, of_system(runs, row.system), [], test, self.plan)
            for row in rows
        }

        def write() -> None:
            main = self.place.content.evaluation.main or "BLEU"
            score_of = {system: main_of(path, main) for system, path in paths.items()}
            found = {point: score_of[row.system] for point, row in points.items()}
            base, start = score_of[baseline.system], self.place.work / "sweep"
            print(write_sweep(found, base, start, main), end="")

        self.place.shell.act(write)


def of_system(runs: Sequence[Run], system: str) -> list[Run]:
    return [run for run in runs if run.record.system == system]


def first_of_sizes(rows: Sequence[Row]) -> list[str]:
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row.size, row.title)
    return list(dict.fromkeys(first.values()))


def print_scores(path: Path) -> None:
    from fairseq_posattn.io.records import read_record
    from fairseq_posattn.lab.scoring.on_screen import lines
    from fairseq_posattn.lab.scoring.score_record import ScoredSystem

    print("\n".join(lines(read_record(ScoredSystem, path, "evaluate again"))), flush=True)
    say(f"{path}: the scores were written to this file")
