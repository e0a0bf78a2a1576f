"""Errors that the user can fix: a command prints them as one line and exits with code 1."""

from collections.abc import Iterable
from difflib import get_close_matches

FEW = 8  # a message lists all names up to this number


class InputError(ValueError):
    """An input is invalid; the message states what was found, where, and what to do."""


def names_like(name: str, known: Iterable[str]) -> str:
    """Return the part of a message that lists the known names: all, or the three most similar."""
    names = sorted(known)
    if len(names) <= FEW:
        return f"choose from {', '.join(names) or 'none'}"
    *others, last = get_close_matches(name, names, n=3, cutoff=0)
    return f"the nearest of {len(names)} names are {', '.join(others)} and {last}"
