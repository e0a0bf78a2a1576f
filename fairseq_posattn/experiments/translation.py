"""Train and evaluate the models of a translation recipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError, lab_extra
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.corpora import reference_files
from fairseq_posattn.experiments.evaluating import evaluate
from fairseq_posattn.experiments.experiment import TRIAL, Experiment, Seeds
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.preparing import check_texts, prepare
from fairseq_posattn.experiments.recipe import FILE, module_beside, refuse_unknown
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.reproducibility import note_preparing, write_checklist
from fairseq_posattn.experiments.runs import (
    Run,
    fingerprint_of,
    one_run,
)
from fairseq_posattn.experiments.scoring import check_scoring, score, signature, statistics
from fairseq_posattn.experiments.study import (
    STUDY,
    StoredRun,
    check_pools,
    check_references,
    check_signatures,
    rows_of,
    store_results,
    stored_runs,
)
from fairseq_posattn.experiments.tables import (
    Results,
    lines_of,
    main_of,
    table_of,
    write_parts,
    write_sweep,
)
from fairseq_posattn.experiments.training_options import run_of
from fairseq_posattn.files.terminal import say
from fairseq_posattn.report.systems import ReportRequest
from fairseq_posattn.scoring.tables import write_tables


class Translation(Experiment):
    """An experiment whose models translate the test sets of a corpus."""

    without = ("corpora",)
    small = False
    most_baselines = sys.maxsize

    def __init__(self, request: Any):
        super().__init__(request)
        if not self.content.has_presets:
            raise InputError(
                f"{self.folder / FILE}: the recipe needs a {TRIAL}, because its models have no "
                "preset (model = ...)"
            )

    def rows(self, size: str | None, names: Sequence[str] = ()) -> list[Row]:
        """Return the models of a size, or of all sizes; raise an InputError for unknown names."""
        if not self.settings.from_study:
            return super().rows(size, names)
        rows = list(rows_of(self.stored_runs(size), self.recipe.rows(size)))
        refuse_unknown(names, [row.title for row in rows])
        return rows

    def of_corpora(self, rows: Sequence[Row]) -> list[Row]:
        return [*rows]

    def shards(self, row: Row, seed: int) -> list[Path]:
        return self.shards_of(row.trees)

    def make_data(self, row: Row, seed: int) -> None:
        """Raise an InputError if the data do not exist, or if the texts have changed since."""
        super().make_data(row, seed)
        self.shell.act(check_texts, self, row.trees)

    def outputs(self, folder: Path) -> Options:
        return {"tensorboard-logdir": folder / "tensorboard"}

    def test_one(self, run: Run, shown: bool, machine: Machine, share: Share) -> None:
        """Translate the test sets with a run; store examples for the report only if `shown`."""
        evaluate(self, run, self.settings.examples if shown else 0, machine, share)

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        prepare(self, source, any_size, rest)
        self.shell.act(note_preparing, self)

    def trained(self, row: Row, seeds: Seeds) -> list[Run]:
        """Return the runs of a model that were trained with the given options.

        If no options are given, the existing runs are returned, provided that they were all trained
        with the same options.
        """
        request = self.settings
        if request.rest or request.updates or request.precision or self.shell.dry_run:
            return super().trained(row, seeds)
        found = [
            one_run(self.runs, row.system, seed, partial(run_of, self, row, seed)) for seed in seeds
        ]
        for run in found:
            run.record.refuse_another_training(found[0].record)
        return found

    def finished(self, rows: Sequence[Row], seeds: Seeds) -> list[Run]:
        """Train and evaluate all models with all seeds; if `from_study`, return the stored runs."""
        self.shell.act(check_scoring, self)
        if self.settings.from_study:
            found = self.stored_runs(None, seeds)
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
            self.shell.act(lambda: check_references(found, self.references()))
            self.shell.act(check_signatures, found, partial(signature, self))
            return [*found]
        return super().finished(rows, seeds)

    def stored_runs(self, size: str | None, seeds: Seeds = ()) -> list[StoredRun]:
        """Return the stored runs, optionally only those with this size and one of these seeds."""
        return [
            run
            for run in stored_runs(self.recipe.folder / STUDY)
            if size in (None, run.record.size) and (not seeds or run.record.seed in seeds)
        ]

    def show(self, runs: Sequence[Run], others: Sequence[Run]) -> None:
        for test in self.subsets():
            path = score(self, runs, others, test)
            self.shell.act(print_scores, path)

    def write(self, rows: Sequence[Row], runs: Sequence[Run], baselines: Sequence[str]) -> None:
        tests = list(self.subsets())
        of_size: dict[str, dict[str, Row]] = {}
        for row in rows:
            of_size.setdefault(row.size, {})[row.title] = row
        results: Results = {}
        for row in rows:
            same = of_size[row.size]
            names = baselines or list(same)[:1]
            others: list[Row | None] = [
                same[name] for name in names if name in same and same[name] is not row
            ]
            for test in tests:
                for other in others or [None]:
                    against = of_system(runs, other.system) if other else []
                    path = score(self, of_system(runs, row.system), against, test)
                    results[row.system, test, other.title if other else None] = path
        first: dict[tuple[str, str], Path] = {}
        for (system, test, _), path in results.items():
            first.setdefault((system, test), path)
        systems, out = [*map(str, first.values())], self.work / "report.html"
        request = ReportRequest(systems=systems, title=self.content.title, out=out)
        self.shell.call(report, request)

        def write() -> None:
            first_of_sizes = dict.fromkeys(next(iter(same)) for same in of_size.values())
            lines = lines_of(rows, tests, results, baselines or list(first_of_sizes))
            print("\n".join(write_tables([table_of(lines)], self.work / "table")))
            published = self.content.evaluation.published
            write_parts(first.values(), published, self.work / "subsets")
            write_checklist(self, runs)

        self.shell.act(write)
        if self.settings.keep:
            self.shell.act(self.store_results, runs, tests)

    def store_results(self, runs: Sequence[Run], tests: Sequence[str]) -> None:
        """Store the results of all runs in the recipe, together with the decoding settings."""
        translated = {name: self.decoding(name) for name in self.content.sizes}
        results = [(run, {test: statistics(self, run, test) for test in tests}) for run in runs]
        store_results(self.recipe.folder / STUDY, results, self.references(), translated)

    def references(self) -> dict[str, list[str]]:
        """Return the checksums of the references of each test set."""
        return {
            test: [
                fingerprint_of(p)["sha256"] for p in reference_files(self.recipe, self.raw, test)
            ]
            for test in self.content.corpus.tests
        }

    def sweep(self, size: str | None, seeds: Seeds) -> None:
        """Train and evaluate the models of the recipe's sweep, and plot their scores.

        size: size of the models (default: the first size of the recipe).
        """
        size = self.recipe.size(size)
        sweep = self.content.sweep
        if sweep is None:
            super().sweep(size, seeds)
            return
        self.settings = replace(self.settings, examples=0)
        [test] = self.subsets()
        baseline = Row(sweep.baseline, size)
        points = {(s.label, v): s.row(v, size) for s in sweep.series for v in s.values}
        rows = [baseline, *points.values()]
        runs = self.finished(rows, seeds)
        paths = {row.system: score(self, of_system(runs, row.system), [], test) for row in rows}

        def write() -> None:
            main = self.content.evaluation.main or "BLEU"
            score_of = {system: main_of(path, main) for system, path in paths.items()}
            found = {point: score_of[row.system] for point, row in points.items()}
            base, start = score_of[baseline.system], self.work / "sweep"
            print(write_sweep(found, base, start, main), end="")

        self.shell.act(write)


def of_system(runs: Sequence[Run], system: str) -> list[Run]:
    return [run for run in runs if run.record.system == system]


def report(request: ReportRequest) -> None:
    with lab_extra("the report needs"):  # a dry run does not require the imports
        from fairseq_posattn.report.report import write_report
    write_report(request)


def print_scores(path: Path) -> None:
    from fairseq_posattn.files.records import read_record
    from fairseq_posattn.scoring.score_record import ScoredSystem
    from fairseq_posattn.scoring.system_tables import lines

    print("\n".join(lines(read_record(ScoredSystem, path, "evaluate again"))), flush=True)
    say(f"{path}: the scores were written to this file")


def experiment_class(file: Path) -> type[Experiment]:
    """Return the class `Recipe` of a recipe's trial.py, or Translation if there is no trial.py."""
    module = module_beside(file.parent / TRIAL, f"trial_of_{file.parent.name}")
    if module is None:
        return Translation
    found = getattr(module, "Recipe", None)
    if not (isinstance(found, type) and issubclass(found, Experiment)):
        raise InputError(
            f"{file.parent / TRIAL}: the file contains no class Recipe derived from Experiment; "
            "define one"
        )
    return found
