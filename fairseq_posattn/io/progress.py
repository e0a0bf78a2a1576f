"""Tell the user of a command how far it is."""

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
