"""Report the progress of a command, and format durations and sizes."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from fairseq_posattn.io.visible import visible

T = TypeVar("T")


def say(text: str) -> None:
    """Print a line to stderr and flush it; control characters are escaped."""
    print(visible(text), file=sys.stderr, flush=True)


def progress(items: Iterable[T], total: int | None = None, unit: str = " sentences") -> Iterable[T]:
    """Iterate over the items with a progress bar if stderr is a terminal."""
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit=unit, unit_scale=True, disable=None)
    return bar


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
