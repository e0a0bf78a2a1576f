"""Parse numbers in canonical form: `10`, but not `1_0`, `+10`, `010` or non-ASCII digits."""

import math
import re
from collections.abc import Sequence

SMALL = {str(number): number for number in range(1024)}  # a look-up is faster than int()
DECIMAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def plain_numbers(tokens: Sequence[str]) -> list[int] | None:
    """Return the tokens as integers, or None if a token is not an integer in canonical form."""
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
    """Convert text to an integer, or return None if it is not an integer in canonical form."""
    numbers = plain_numbers([text])
    return None if numbers is None else numbers[0]


def decimal_number(text: str) -> float | None:
    """Convert text such as `1e-3` to a float, or return None if it is not a finite number."""
    number = float(text) if DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def first_odd(tokens: Sequence[str]) -> int:
    """Return the index of the first token that `plain_number` rejects; such a token must exist."""
    return next(k for k, token in enumerate(tokens) if plain_numbers([token]) is None)
