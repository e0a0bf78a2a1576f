"""Print messages and progress on the terminal, and escape invisible characters.

Control characters for the text direction (such as U+202E) make a terminal reorder text, and other
invisible characters can hide differences between texts.
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from unicodedata import category

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format, surrogate and line-end characters
WITH_SHAPE = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd")
WITHOUT_SHAPE = set("\u034f\u115f\u1160\u3164\uffa0")
JOINERS = set("\u200c\u200d")  # part of the spelling in Persian, Hindi and emoji


def visible(text: str) -> str:
    """Escape invisible characters, as in \\u202e, except joiners after a non-ASCII letter."""
    if text.isprintable() and WITHOUT_SHAPE.isdisjoint(text):
        return text
    shown, before = [], ""
    for char in text:
        joins = char in JOINERS and before > "\x7f"
        shown.append(ascii(char)[1:-1] if hides(char) and not joins else char)
        before = "" if hides(char) else char
    return "".join(shown)


def hides(char: str) -> bool:
    if char in WITHOUT_SHAPE:
        return True
    return category(char) in HIDDEN and char not in WITH_SHAPE


def visible_strings(value: Any) -> Any:
    """Apply `visible` to all strings in a JSON document or record, including keys."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_strings(part) for part in value]
    if isinstance(value, dict):
        return {visible(key): visible_strings(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        shown = {one.name: visible_strings(getattr(value, one.name)) for one in fields(value)}
        return replace(value, **shown)
    return value


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
