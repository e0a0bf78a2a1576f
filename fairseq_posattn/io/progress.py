"""Tell the user of a command how far it is, and write times and sizes as people read them."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from fairseq_posattn.io.visible import visible

T = TypeVar("T")


def say(text: str) -> None:
    """Print a line to stderr at once; names in it cannot steer the terminal."""
    print(visible(text), file=sys.stderr, flush=True)


def progress(items: Iterable[T], total: int | None = None, unit: str = " sentences") -> Iterable[T]:
    """Return the same items, with a progress bar if stderr is a terminal."""
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit=unit, unit_scale=True, disable=None)
    return bar


def duration(seconds: float) -> str:
    """Return a time as text: 45 s, 12 min, 3 h 20 min, 2 d 4 h."""
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
    """Return a number of bytes in megabytes or gigabytes."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"
