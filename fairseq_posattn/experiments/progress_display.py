"""Display the progress of a recipe's runs and the estimated remaining time.

On a terminal, each run has one line, which is updated in place. In a log file, for example on a
cluster, a line is written when a run starts a new step, and otherwise at most once per minute.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fairseq_posattn.files.terminal import duration, visible
from fairseq_posattn.scoring.training_log import INSIDE, RESUMED, TRAIN, measured_in

SECONDS_BETWEEN_LINES = 60.0
UP_AND_CLEAR = "\x1b[{}A\x1b[J"


class ProgressDisplay:
    """A thread-safe progress display with one line per active run."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        self.out = out or sys.stderr
        self.clock = clock
        self.is_terminal = self.out.isatty()
        self.lines: dict[str, str] = {}
        self.written: dict[str, float] = {}
        self.drawn = 0
        self.turn = threading.Lock()

    def show(self, name: str, text: str, new: bool = False) -> None:
        """Update the progress line of a run.

        new: whether the run starts a new step; new steps are written to log files immediately.
        """
        with self.turn:
            self.lines[name] = text
            if self.is_terminal:
                self.draw()
            elif new or self.clock() - self.written.get(name, 0.0) >= SECONDS_BETWEEN_LINES:
                self.written[name] = self.clock()
                self.print(f"{name}: {text}")

    def finish(self, name: str, text: str = "") -> None:
        """Remove the progress line of a run; print `text`, if any, above the remaining lines."""
        with self.turn:
            self.lines.pop(name, None)
            if self.is_terminal:
                self.draw(f"{name}: {text}" if text else "")
            elif text:
                self.print(f"{name}: {text}")

    def draw(self, above: str = "") -> None:
        """Redraw all lines; if `above` is given, print it permanently above them."""
        width = max(20, shutil.get_terminal_size().columns)
        lines = [visible(f"{name}: {text}")[: width - 1] for name, text in self.lines.items()]
        shown = [visible(above), *lines] if above else lines
        begin = UP_AND_CLEAR.format(self.drawn) if self.drawn else ""
        self.out.write(begin + "".join(f"{line}\n" for line in shown))
        self.out.flush()
        self.drawn = len(lines)

    def print(self, line: str) -> None:
        self.out.write(f"{visible(line)}\n")
        self.out.flush()


class LogReader:
    """Reads the lines that are appended to a log file after the reader was created."""

    def __init__(self, path: Path):
        self.path = path
        self.place = path.stat().st_size if path.exists() else 0
        self.rest = ""

    def new_lines(self) -> list[str]:
        """Return the complete lines appended since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.place)
                added = file.read()
        except FileNotFoundError:
            return []
        self.place += len(added)
        *lines, self.rest = (self.rest + added.decode("utf-8", "replace")).split("\n")
        return lines


@dataclass
class TrainingProgress:
    """The progress of a training run, read from its log; `str()` formats it for display.

    The remaining time is estimated only from the updates since training was last started or
    resumed.

    updates: total number of updates, or 0 if it is unknown because of early stopping.
    """

    updates: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    epoch: int = 0
    first: tuple[float, int] | None = None
    valid: str = ""

    def read(self, lines: list[str]) -> None:
        """Update the progress from new lines of the log of fairseq-train."""
        for line in lines:
            if resumed := RESUMED.search(line):
                self.done = int(resumed[1])
            found = measured_in(line)
            if found is None:
                continue
            self.done = found.update
            self.first = self.first or (self.clock(), self.done)
            self.epoch = found.epoch or self.epoch
            if found.subset not in (INSIDE, TRAIN) and found.loss is not None:
                self.valid = f"valid loss {found.loss} after {self.done:,}"

    def __str__(self) -> str:
        if self.updates:
            parts = [f"update {self.done:,} of {self.updates:,}", self.valid, self.time_left()]
        else:
            parts = [f"epoch {self.epoch}, update {self.done:,}", self.valid]
        return ", ".join(filter(None, parts))

    def time_left(self) -> str:
        """Return the estimated remaining time, or an empty string if it is unknown."""
        if self.first is None or self.done <= self.first[1]:
            return ""
        begun, updates = self.first
        pace = (self.clock() - begun) / (self.done - updates)
        return f"{duration(pace * max(0, self.updates - self.done))} left"
