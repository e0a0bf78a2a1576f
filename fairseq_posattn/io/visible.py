"""Show text in which nothing hides: invisible characters are written as escapes.

Control characters for the direction of writing (U+202E and others) make a terminal show a text in
another order than it has. They and other invisible characters are written as \\u202e.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any
from unicodedata import category

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # these are controls, formats, surrogates and line ends
WITH_SHAPE = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd")
WITHOUT_SHAPE = set("\u034f\u115f\u1160\u3164\uffa0")
JOINERS = set("\u200c\u200d")  # they are part of the spelling in Persian, Hindi and emoji


def visible(text: str) -> str:
    """Return the text with escapes for characters that cannot be seen.

    A joiner stays after a letter that is not ASCII, because it is part of the spelling there.
    """
    if text.isprintable() and WITHOUT_SHAPE.isdisjoint(text):
        return text
    shown, before = [], ""
    for char in text:
        joins = char in JOINERS and before > "\x7f"
        shown.append(ascii(char)[1:-1] if hides(char) and not joins else char)
        before = "" if hides(char) else char
    return "".join(shown)


def hides(char: str) -> bool:
    """Return whether a character cannot be seen."""
    if char in WITHOUT_SHAPE:
        return True
    return category(char) in HIDDEN and char not in WITH_SHAPE


def visible_strings(value: Any) -> Any:
    """Return a JSON document, or a record that describes one, with all its strings made visible."""
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
