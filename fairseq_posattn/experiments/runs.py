"""Manage the runs of a recipe; each run trains one model with one random seed.

The folder of a run is runs/NAME.SIZE.seedN.KEY. KEY is a checksum of the training options, the
number of updates, the data, and all files that are passed as options. Changing an option therefore
creates a new run.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import plain, plain_or_empty
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import fingerprint
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import Open, as_document, at_least, read_record
from fairseq_posattn.files.version import code_version

RECORD, FINISHED = "run.json", "finished"
TRAINED = ("checkpoint*.pt", "train*.log", "curve.jsonl")  # outputs of training
KEY_DIGITS = 8
SAME = "nothing"  # returned by `difference` for equal runs
AGAIN = "move the folder away, and train again"


@dataclass(frozen=True)
class RunRecord(Open):
    """The content of run.json: the options and input files of a run.

    options: options of fairseq-train, except those that depend on the machine.
    files: fingerprints of the data and of all other files that are read during training.
    versions: versions of this package with which the run was trained.
    machines: descriptions of the machines on which training was started (see `described`).
    tested: trees used for testing, if they differ from `trees`.
    """

    name: str = field(metadata=plain())
    size: str = field(metadata=plain())
    seed: int = field(metadata=at_least(0))
    updates: int = field(metadata=at_least(0))
    trees: str = field(metadata=plain())
    options: list[str]
    files: dict[str, dict]
    versions: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    tested: str = field(default="", metadata=plain_or_empty())

    @property
    def key(self) -> str:
        """Return a checksum of everything that influences the training."""
        others = ("versions", "machines", "name", "tested")
        made_of = {k: v for k, v in as_document(self).items() if k not in others}
        text = json.dumps(made_of, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    @property
    def test_trees(self) -> str:
        return self.tested or self.trees

    @property
    def system(self) -> str:
        """Return the name shared by the runs of a model with different seeds."""
        return f"{self.name}.{self.size}"

    def choices(self) -> dict[str, list[str]]:
        """Return all settings except the seed, by name."""
        of_training = {k: v for k, v in by_option(self.options).items() if k != "--seed"}
        others = {"trees": [self.trees], "trees of the tests": [self.test_trees]}
        return {"--updates": [str(self.updates)], **others, **of_training}

    def refuse_another_training(self, other: RunRecord) -> None:
        if (found := self.difference(other)) != SAME:
            raise InputError(
                f"{self.system}: the runs with seeds {other.seed} and {self.seed} were trained "
                f"differently ({found}); score them separately, or train both with the same options"
            )

    def difference(self, other: RunRecord) -> str:
        """Describe the first difference between two runs; return SAME if there is none."""
        now, was = self.choices(), other.choices()
        for name in dict.fromkeys([*now, *was]):
            if now.get(name) != was.get(name):
                before, after = (" ".join(found.get(name, ["-"])) for found in (was, now))
                return f"{name} was '{before[:60]}', is now '{after[:60]}'"
        for name in sorted({*self.files, *other.files}):
            if self.files.get(name) != other.files.get(name):
                return f"the content of {name} differs"
        return SAME


def by_option(words: Sequence[str]) -> dict[str, list[str]]:
    """Parse a command line and return the values of each option.

    If an option is repeated, its last occurrence counts.

    Example:

        by_option(["--a=1", "--b", "2", "3"])  # {"--a": ["1"], "--b": ["2", "3"]}
    """
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = [value] if equals else []
        else:
            found.setdefault(name, []).append(word)
    return found


@dataclass(frozen=True)
class Run:
    """A run and its record.

    runs: parent folder of the run's folder.
    """

    runs: Path
    record: RunRecord

    @cached_property
    def folder(self) -> Path:
        return self.runs / f"{self.record.system}.seed{self.record.seed}.{self.record.key}"

    @property
    def name(self) -> str:
        """Return the name of the run's folder without the key."""
        return f"{self.record.system}.seed{self.record.seed}"

    def scored(self, test: str) -> Path:
        """Return the path of the file from which a test set is scored."""
        return self.folder / f"{test}.hyp"

    @property
    def is_finished(self) -> bool:
        return (self.folder / FINISHED).exists()

    def record_start(self, machine: str = "") -> str:
        """Create the folder of the run, or update the versions and machines in its record.

        For a new run, returns a description of how it differs from the newest run of the same name.
        Otherwise, returns an empty string.
        """
        path = self.folder / RECORD
        new = not path.exists()
        former = [run for run in runs_in(self.runs) if run.name == self.name] if new else []
        with locked(path, wait=True):  # several machines may start the same run
            record = read_record(RunRecord, path, AGAIN) if path.exists() else self.record
            self.write([*record.versions, code_version()], [*record.machines, machine])
        if not former:
            return ""
        return (
            f"this run differs from {former[-1].folder.name} "
            f"({self.record.difference(former[-1].record)})"
        )

    def write(self, versions: Sequence[str], machines: Sequence[str]) -> None:
        """Write the record to run.json, with each of the given versions and machines once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lists = {"versions": versions, "machines": filter(None, machines)}
        once = {name: list(dict.fromkeys(values)) for name, values in lists.items()}
        with written_whole(self.folder / RECORD) as file:
            json.dump({**as_document(self.record), **once}, file, indent=1)

    def finish(self) -> None:
        """Mark the training as complete by writing a file with unique content."""
        with written_whole(self.folder / FINISHED) as file:
            file.write(f"{self.record.updates} {secrets.token_hex(8)}\n")


def copy_trained(run: Run) -> Path | None:
    """Copy the trained model of a finished run that has the same key but another name.

    Returns the folder of the copied run, or None if there is no such run.
    """
    for other in runs_in(run.runs):
        if other.record.key == run.record.key and other.is_finished:
            for pattern in TRAINED:
                for path in other.folder.glob(pattern):
                    shutil.copyfile(path, run.folder / path.name)
            run.write(other.record.versions, other.record.machines)
            run.finish()
            return other.folder
    return None


def runs_in(folder: Path) -> list[Run]:
    """Return all runs in a folder, oldest first."""
    paths = sorted(folder.glob(f"*/{RECORD}"), key=lambda path: path.stat().st_mtime)
    found = [Run(folder, read_record(RunRecord, path, AGAIN)) for path in paths]
    return [run for run, path in zip(found, paths, strict=True) if run.folder == path.parent]


def one_run(folder: Path, system: str, seed: int, planned: Callable[[], Run] | None = None) -> Run:
    """Return the finished run for a model and a seed.

    Raises InputError if there is none, or if there are several and `planned` returns none of them.

    planned: function that returns the preferred run.
    """
    found = [run for run in runs_in(folder) if run.name == f"{system}.seed{seed}"]
    finished = [run for run in found if run.is_finished]
    if not finished:
        state = "its training is not complete" if found else "it was not trained"
        raise InputError(f"{folder}/{system}.seed{seed}: {state}; run train.sh first")
    if len(finished) > 1 and planned is not None and planned().is_finished:
        return planned()
    if len(finished) > 1:
        names = ", ".join(run.folder.name for run in finished)
        raise InputError(
            f"{folder}: {len(finished)} finished runs are called {system}.seed{seed} "
            f"({finished[-1].record.difference(finished[0].record)}); select one of {names} with "
            "--run"
        )
    return finished[0]


def fingerprints(data: Sequence[Path], patterns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the fingerprints of all files in the data folders that match one of the patterns."""
    found = {}
    for folder in data:
        prefix = f"{folder.name}/" if len(data) > 1 else ""
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                found[prefix + path.name] = fingerprint_of(path)
    return found


def fingerprint_of(path: Path) -> dict[str, Any]:
    """Return the fingerprint of a file, cached until its size or modification time changes."""
    state = path.stat()
    return cached(str(path), state.st_size, state.st_mtime_ns)


def named_files(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the fingerprints of all files among the option values (see `files_in`)."""
    return {path: fingerprint(path) for path in files_in(words)}


def files_in(words: Sequence[str]) -> list[str]:
    """Return the existing files among the option values, including FILE in NAME=FILE."""
    values = [value for word in words for value in (word, word.partition("=")[2])]
    return [v for v in dict.fromkeys(values) if not v.startswith("-") and os.path.isfile(v)]


@cache
def cached(path: str, _size: int, _changed: int) -> dict[str, Any]:
    return fingerprint(path)
