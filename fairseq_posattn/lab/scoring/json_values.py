"""Define which numbers and texts may stand in the JSON of a scored system, and its fields."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

from fairseq_posattn.io.records import ABSENT, Limit, about

LARGEST = 1e15  # no figure of a system comes near it, and larger ones cannot be drawn


def is_number(value: Any) -> bool:
    """Return whether the value is a number, but not true, nan or larger than what is measured."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def is_writable(value: Any) -> bool:
    """Return whether a text has no unpaired surrogates, which JSON can spell but no file can
    hold."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


Number = Annotated[float, Limit(is_number, "a number")]
Whole = Annotated[int, Limit(lambda n: type(n) is int and is_number(n), "a whole number")]
Text = Annotated[str, Limit(is_writable, "text")]


def has(what: str, key: str | None = None) -> Any:
    """Return a field that must be in the document, with what it says, and its key if that is not
    its name."""
    return field(metadata=about(what, key))


def may_have(what: str) -> Any:
    """Return a field that may be missing from the document and then is ABSENT."""
    return field(default=ABSENT, metadata=about(what))
