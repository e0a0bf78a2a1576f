"""Define which numbers and texts may stand in the JSON of a scored system."""

from __future__ import annotations

from typing import Annotated, Any

from fairseq_posattn.io.records import Limit

LARGEST = 1e15  # no figure of a system comes near it, and larger ones cannot be drawn


def is_number(value: Any) -> bool:
    """Return whether the value is a usual number, but not true or false."""
    return type(value) in (int, float) and is_usual(value)


def is_whole(value: Any) -> bool:
    """Return whether the value is a usual whole number, but not true or false."""
    return type(value) is int and is_usual(value)


def is_usual(value: float) -> bool:
    """Return whether a number is finite, and no larger than what can be counted or measured."""
    return -LARGEST <= value <= LARGEST  # this is false for nan


def is_text(value: Any) -> bool:
    """Return whether a text has no unpaired surrogates, which JSON can spell but no file can
    hold."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


Number = Annotated[float, Limit(is_number, "a number")]
Whole = Annotated[int, Limit(is_whole, "a whole number")]
Text = Annotated[str, Limit(is_text, "text")]
