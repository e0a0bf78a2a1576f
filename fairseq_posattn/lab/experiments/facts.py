"""Collect facts about an experiment from its corpus and from the records and logs of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from fairseq_posattn.io.records import known, read_record
from fairseq_posattn.lab.experiments.runs import (
    AGAIN,
    RECORD,
    Run,
    RunRecord,
    by_option,
    fingerprint_of,
)
from fairseq_posattn.lab.experiments.scoring import logs
from fairseq_posattn.lab.experiments.starts import Start, starts_in
from fairseq_posattn.lab.experiments.tables import Line
from fairseq_posattn.lab.experiments.training import training_pairs
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
from fairseq_posattn.lab.scoring.generate_log import speed
from fairseq_posattn.lab.scoring.training_log import read_training
from fairseq_posattn.work.made import Made


@dataclass(frozen=True)
class Facts:
    """Facts about the runs in a result table.

    of_system: the runs of each model.
    """

    place: Workplace
    plan: Plan
    lines: Sequence[Line]
    of_system: Mapping[str, Sequence[Run]]

    @property
    def runs(self) -> list[Run]:
        return list(chain.from_iterable(self.of_system.values()))

    @property
    def tests(self) -> list[str]:
        return list(self.lines[0].cells)

    def starts(self) -> list[tuple[Run, Start]]:
        """Return a (run, start) pair for each entry in the machine*.json files of the runs.

        Runs that are stored in RECIPE/study have no such files.
        """
        return [(run, start) for run in self.runs for start in starts_in(run.folder)]

    def versions(self) -> list[str]:
        found: dict[str, None] = {}
        for run in self.runs:
            path = run.folder / RECORD
            record = read_record(RunRecord, path, AGAIN) if path.exists() else run.record
            found |= dict.fromkeys(record.versions)
        return list(found)

    def translating(self, run: Run) -> float | None:
        """Return the time in seconds for translating all test sets, or None if it is unknown.

        If several processes translated a test set, the time of the slowest process counts.
        """
        found = [translating_seconds(run, test) for test in self.tests]
        return None if None in found else sum(seconds for seconds in found if seconds)

    def choices(self, line: Line) -> dict[str, str]:
        """Return the settings of a model, by option name without leading dashes."""
        found: dict[str, dict[str, None]] = {}
        for run in self.of_system[line.row.system]:
            of_run = {"updates": str(run.record.updates), "trees": run.record.trees}
            for name, value in {**of_run, **values(run.record.options)}.items():
                found.setdefault(name, {})[value] = None
        found.pop("seed", None)
        content = self.place.content
        if not self.plan.from_study:  # older stored runs contain no decoding settings
            averaged = self.plan.last or content.sizes[line.row.size].averaged
            beam, lenpen = content.evaluation.beam, content.evaluation.lenpen
            translating = {"averaged": averaged, "beam": beam, "lenpen": lenpen}
            found |= {name: {str(value): None} for name, value in translating.items()}
        return {name: " or ".join(values) for name, values in found.items()}

    def pairs(self) -> int | None:
        """Return the number of sentence pairs in the training data, or None if it is unknown."""
        shards = self.place.shards(self.runs[0].record.trees) if self.runs else []
        if self.plan.from_study or not all(shard.is_dir() for shard in shards):
            return None
        return sum(map(training_pairs, shards))

    def words(self) -> int | None:
        """Return the number of target words in the training data, or None if it was not counted."""
        content = self.place.content
        target = self.place.raw / f"{content.corpus.train}.{content.target}"
        counts = Made.read(self.place.work / "train_counts.json")
        if counts and target.is_file() and counts.key.get("text") == fingerprint_of(target):
            return sum(counts.answer.values())
        return None


def training_seconds(run: Run) -> float | None:
    """Return the total training time of a run in seconds, or None if it is unknown."""
    paths = logs(run.folder, "train*.log", "train.log")
    return read_training(list(map(str, paths))).seconds if paths[0].exists() else None


def translating_seconds(run: Run, test: str) -> float | None:
    paths = logs(run.folder, f"{test}.shard*", f"{test}.shard0")
    return known(speed(list(map(str, paths))).seconds) if paths[0].exists() else None


def values(words: Sequence[str]) -> dict[str, str]:
    """Return the value of each option, by option name without leading dashes."""
    return {name.removeprefix("--"): " ".join(of) for name, of in by_option(words).items()}
