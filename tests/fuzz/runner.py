"""One damaged input: a command runs on it in this process, and what it did is judged."""

from __future__ import annotations

import contextlib
import gc
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import NamedTuple

from fairseq_posattn.files import command_line
from support.in_process import Ended, run_main

from .registry import Command, InputClass

LONGEST_MESSAGE = 300
SECONDS = 300  # for an input: one that is waited for hangs, even where the machine is busy
MOST_MUTATIONS = 3


class Failure(NamedTuple):
    """An input that was not treated as it should be."""

    number: int
    damage: str
    reason: str


class Hangs(BaseException):
    """Not an Exception, so that no program catches it."""


@dataclass
class Fuzzed:
    """A class at work in a folder, with a seed; inputs are numbered, and each can be repeated."""

    kind: InputClass
    folder: Path
    seed: int

    def __post_init__(self):
        self.sound = self.folder / "sound"
        self.copy.mkdir(parents=True)
        self.kind.build(self.copy)  # where it will lie: some files hold their own paths
        self.copy.rename(self.sound)
        ended = self.run_on_copy(lambda folder: None)
        if ended.code != 0:
            raise AssertionError(f"{self.kind.name}: the undamaged input ends with {ended}")
        self.expected = self.kind.result and self.kind.result(self.copy)

    @property
    def copy(self) -> Path:
        return self.folder / "copy"

    def run_on_copy(self, damage: Callable[[Path], None]) -> Ended:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.sound, self.copy, symlinks=True)
        damage(self.copy)
        self.before = listing(self.copy)
        return run(self.kind.command(self.copy))

    def failure(self, number: int) -> Failure | None:
        """Damage input `number`, run the command on it; what was wrong with its end, or None."""
        random = Random(f"{self.kind.name} {self.seed} {number}")
        done: list[str] = []

        def damage(folder: Path) -> None:
            path = random.choice(damageable(self.kind, folder))
            data = path.read_bytes()
            for _ in range(random.randint(1, MOST_MUTATIONS)):
                mutation = random.choice(self.kind.mutations)
                data = mutation(data, random)
                done.append(mutation.__name__)
            path.write_bytes(data)
            done.insert(0, str(path.relative_to(folder)))

        ended = self.run_on_copy(damage)
        reason = self.fault(ended, done[0])
        return reason and Failure(number, " ".join(done), reason)

    def fault(self, ended: Ended, damaged: str) -> str | None:
        new = sorted(listing(self.copy) - self.before)
        if ended.code == 0:
            return self.fault_of_success(new)
        if ended.code not in (1, 2):
            return f"ended with {ended.code}: {ended.err[-300:]}"
        if unfinished := [n for n in new if not any(fnmatch(n, p) for p in self.kind.left.split())]:
            return f"left {', '.join(unfinished)} behind: {ended.err[-300:]}"
        names = [Path(damaged).name, *self.kind.also_named.split()]
        return fault_of_message(ended.err, names)

    def fault_of_success(self, new: list[str]) -> str | None:
        allowed = f"{self.kind.outputs} {self.kind.left}".split()
        if unfinished := [n for n in new if not any(fnmatch(n, p) for p in allowed)]:
            return f"ended well, and left {', '.join(unfinished)} behind"
        if self.kind.result and self.kind.result(self.copy) != self.expected:
            return "ended well with another result"
        return None


def fault_of_message(stderr: str, names: Sequence[str]) -> str | None:
    """What is wrong with the line that an error ends with."""
    lines = [line for line in stderr.split("\n") if line.strip()]
    errors = [line for line in lines if re.match(r"(\S+( [\w-]+){0,2}: )?error: ", line)]
    if "Traceback" in stderr:
        return f"a traceback: {stderr[-2000:]}"
    if len(errors) != 1 or lines[-1] != errors[0]:
        return f"not one line 'error: ...' at the end: {stderr[-1000:]}"
    if len(errors[0]) > LONGEST_MESSAGE:
        return f"a line of {len(errors[0])} characters: {errors[0][:300]}"
    if command_line.UNEXPECTED in errors[0]:
        return f"not foreseen: {errors[0]}"
    if not any(name in errors[0] for name in names):
        return f"does not name {' or '.join(names)}: {errors[0]}"
    return None


def damageable(kind: InputClass, folder: Path) -> list[Path]:
    found = sorted({path for pattern in kind.damaged.split() for path in folder.glob(pattern)})
    if not found:
        raise AssertionError(f"{kind.name}: no file of {kind.damaged}")
    return found


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def run(command: Command) -> Ended:
    """Run a program's entry point as the program itself would run."""
    given = command.stdin.read_bytes() if command.stdin else b""
    with hanging_after(SECONDS), no_collection_of_garbage():
        try:
            return run_main(command.main, *command.arguments, input=given)
        except Hangs:
            code = f"no end within {SECONDS} s"
        except BaseException as error:
            code = f"a traceback: {place_of(error)}: {type(error).__name__}: {str(error)[:200]}"
    return Ended(code, "", "")


def place_of(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


@contextlib.contextmanager
def no_collection_of_garbage() -> Iterator[None]:
    """What other tests have left would be destroyed in the middle of this program. At the limit of
    recursion their destructors fail, and Python prints that where the program's own line is due."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def hanging_after(seconds: float) -> Iterator[None]:
    def stop(number, frame):
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
