"""Read numbers as programs write them: `10`, but not `1_0`, `+10`, `010` or other digits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

SMALL = {str(number): number for number in range(1024)}  # a look-up is faster than int()
DECIMAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def plain_numbers(tokens: Sequence[str]) -> list[int] | None:
    """Return the numbers that the tokens spell, or None if one of them is not spelled plainly."""
    try:
        return [SMALL[token] for token in tokens]
    except KeyError:
        pass
    try:
        numbers = [int(token) for token in tokens]  # int() admits `1_0`, `+10` and `010`, too
    except ValueError:
        return None
    return numbers if list(map(str, numbers)) == list(tokens) else None


def plain_number(text: str) -> int | None:
    """Return the whole number that a text spells, or None."""
    numbers = plain_numbers([text])
    return None if numbers is None else numbers[0]


def decimal_number(text: str) -> float | None:
    """Return the finite number that a text spells, such as `-0.5` or `1e-3`, or None."""
    number = float(text) if DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def first_odd(tokens: Sequence[str]) -> int:
    """Return the index of the first token that is not a plain number; there must be one."""
    return next(k for k, token in enumerate(tokens) if plain_numbers([token]) is None)
