"""Report the progress of a command, and format durations and sizes."""

import sys
import time
from collections.abc import Iterable
from typing import TypeVar

from fairseq_posattn.files.visible import visible

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 10


def say(text: str) -> None:
    """Print a line to stderr and flush it; control characters are escaped."""
    print(visible(text), file=sys.stderr, flush=True)


def progress(items: Iterable[T], total: int | None = None, unit: str = " sentences") -> Iterable[T]:
    """Iterate over the items with a progress bar if stderr is a terminal."""
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit=unit, unit_scale=True, disable=None)
    return bar


class Progress:
    """Shows how much is done, the speed and the remaining time.

    On a terminal, the line is updated in place. In a log, a new line is printed at most every
    SECONDS_BETWEEN_LINES, and at the end; tqdm would write all updates to one line.

    done: how much was done before this run.
    unit: what is counted, in plural.
    """

    def __init__(self, total: int, done: int, unit: str, label: str = ""):
        self.total, self.before, self.done, self.unit, self.label = total, done, done, unit, label
        self.began = self.said = time.monotonic()
        self.is_terminal = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Show the progress unless it is unchanged or the last line is too recent."""
        now, ends = time.monotonic(), done >= self.total
        recent = not self.is_terminal and not ends and now - self.said < SECONDS_BETWEEN_LINES
        if done == self.done or recent:
            return
        self.done, self.said = done, now
        speed = max(done - self.before, 1) / max(now - self.began, 1e-9)
        line = (
            f"{self.label}{done:,} of {self.total:,} {self.unit} ({done / self.total:.0%}), "
            f"{speed:.1f} {self.unit}/s, {duration((self.total - done) / speed)} left"
        )
        end = "\r" if self.is_terminal and not ends else "\n"
        print(f"{line:<78}", end=end, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """End the line on a terminal if the work ends early."""
        if self.is_terminal and self.before < self.done < self.total:
            print(file=sys.stderr)


def duration(seconds: float) -> str:
    """Format a duration: 45 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def size_of(size: float) -> str:
    """Format a number of bytes in MB or GB (powers of 10)."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"
