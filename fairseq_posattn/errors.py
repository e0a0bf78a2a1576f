"""Errors that a user can mend are of this class: a command prints one line and exits with 1."""

from collections.abc import Iterable
from difflib import get_close_matches

FEW = 8  # so many names are all shown


class InputError(ValueError):
    """This error says that an input cannot be right: what was found, where, and what to do."""


def names_like(name: str, known: Iterable[str]) -> str:
    """Return the part of a message that says which names there are: all, or the three nearest."""
    names = sorted(known)
    if len(names) <= FEW:
        return f"there are: {', '.join(names) or 'none'}"
    *others, last = get_close_matches(name, names, n=3, cutoff=0)
    return f"the nearest of {len(names)} names are {', '.join(others)} and {last}"
