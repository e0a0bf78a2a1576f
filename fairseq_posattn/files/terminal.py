"""Print messages on the terminal, and escape invisible characters.

Control characters for the text direction (such as U+202E) make a terminal reorder text, and other
invisible characters can hide differences between texts.
"""

import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any
from unicodedata import category

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format, surrogate and line-end characters
WITH_SHAPE = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd")
WITHOUT_SHAPE = set("\u034f\u115f\u1160\u3164\uffa0")
JOINERS = set("\u200c\u200d")  # part of the spelling in Persian, Hindi and emoji


def visible(text: str) -> str:
    """Escape invisible characters, as in \\u202e, except joiners after a non-ASCII letter."""
    if text.isprintable() and WITHOUT_SHAPE.isdisjoint(text):
        return text
    shown, before = [], ""
    for char in text:
        joins = char in JOINERS and before > "\x7f"
        shown.append(ascii(char)[1:-1] if hides(char) and not joins else char)
        before = "" if hides(char) else char
    return "".join(shown)


def hides(char: str) -> bool:
    if char in WITHOUT_SHAPE:
        return True
    return category(char) in HIDDEN and char not in WITH_SHAPE


def visible_strings(value: Any) -> Any:
    """Apply `visible` to all strings in a JSON document or record, including keys."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_strings(part) for part in value]
    if isinstance(value, dict):
        return {visible(key): visible_strings(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        shown = {one.name: visible_strings(getattr(value, one.name)) for one in fields(value)}
        return replace(value, **shown)
    return value


def say(text: str) -> None:
    """Print a line to stderr and flush it; control characters are escaped."""
    print(visible(text), file=sys.stderr, flush=True)


def size_of(size: float) -> str:
    """Format a number of bytes in MB or GB (powers of 10)."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"
