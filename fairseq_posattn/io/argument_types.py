"""Types of command-line options, whose errors say what is expected."""

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a number above 0, found '{text}'")
    return int(text)


def not_negative(text: str) -> int:
    """Read a whole number that is 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a number that is not negative, found '{text}'")
    return int(text)
