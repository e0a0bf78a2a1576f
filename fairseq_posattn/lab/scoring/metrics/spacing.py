"""Find texts that are spaced differently.

A tokenised text beside a plain one gives wrong scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PUNCTUATION = re.compile(r"(\s?)[.,、。，](?!\d)")  # the point in 3.5 is left out


class Text(NamedTuple):
    """Holds the lines of a file and the name that messages give it."""

    name: str
    lines: Sequence[str]


class Counts(NamedTuple):
    """Counts the places of a text that could have a space, and those that have one."""

    spaces: int
    places: int

    @property
    def share(self) -> float:
        """Return the share of places that have a space."""
        return self.spaces / self.places


def between_characters(lines: Sequence[str]) -> Counts:
    """Count the spaces between characters."""
    words = [line.split() for line in lines]
    spaces = sum(max(len(found) - 1, 0) for found in words)
    return Counts(spaces, sum(max(sum(map(len, found)) - 1, 0) for found in words))


def before_punctuation(lines: Sequence[str]) -> Counts:
    """Count the spaces before full stops and commas."""
    found = [match[1] for line in lines for match in PUNCTUATION.finditer(line)]
    return Counts(len(found) - found.count(""), len(found))


@dataclass(frozen=True)
class Sign:
    """Describes a kind of place, and how much its shares differ in texts that are spaced
    differently."""

    count: Callable[[Sequence[str]], Counts]
    difference: float
    fewest: int  # a text with fewer places proves nothing
    name: str


# Tokenised and plain, the texts of PUD have shares of 0.59 and 0.00 (Chinese), 0.22 and 0.19
# (English) between characters, and of 0.99 and 0.00, 0.98 and 0.00 before punctuation.
SIGNS = (
    Sign(between_characters, 0.15, 1, "between {} and {} of the characters"),
    Sign(before_punctuation, 0.5, 3, "before {} and {} of the full stops and commas"),
)


def spaced_differently(one: Text, other: Text) -> str | None:
    """Return what differs between two texts of which one seems to be tokenised, or None."""
    for sign in SIGNS:
        counts = sign.count(one.lines), sign.count(other.lines)
        if min(found.places for found in counts) < sign.fewest:
            continue
        shares = [found.share for found in counts]
        if abs(shares[0] - shares[1]) > sign.difference:
            where = sign.name.format(*(f"{share:.0%}" for share in shares))
            return (
                f"{one.name} and {other.name} are spaced differently (spaces {where}); "
                "if one of them is tokenised, the scores are wrong: detokenise it"
            )
    return None
