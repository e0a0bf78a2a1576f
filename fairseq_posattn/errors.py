"""Errors that users can fix; commands print such an error on one line and exit with code 1."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

FEW = 8  # maximum number of names that a message lists in full


class InputError(ValueError):
    """Raised for invalid input; the message states what was found, where, and how to fix it."""


def names_like(name: str, known: Iterable[str]) -> str:
    """Return a phrase that lists known names, for use in an error message.

    If there are more than `FEW` names, only the three that are most similar to `name` are listed.
    """
    names = sorted(known)
    if len(names) <= FEW:
        return f"choose from {', '.join(names) or 'none'}"
    *others, last = get_close_matches(name, names, n=3, cutoff=0)
    return f"the nearest of {len(names)} names are {', '.join(others)} and {last}"


@contextmanager
def lab_extra(need: str) -> Iterator[None]:
    """Convert ImportErrors in the block to InputErrors that explain how to install the extra `lab`.

    need: the beginning of the error message.

    Example:

        with lab_extra("the figures need"):
            import matplotlib
    """
    try:
        yield
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise InputError(
            f"{need} the package {package}; install it with pip install 'fairseq_posattn[lab]' "
            "(in a checkout: pip install '.[lab]')"
        ) from None
