"""Types and field definitions for the JSON of a scored system."""

from typing import Annotated, Any

from fairseq_posattn.files.records import ABSENT, Limit, option

LARGEST = 1e15  # far above any score; larger numbers cannot be plotted


def is_number(value: Any) -> bool:
    """Return whether a value is an int or float within ±LARGEST; bool and nan are excluded."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def is_writable(value: Any) -> bool:
    """Return whether a value is text without unpaired surrogates, which UTF-8 cannot encode."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


Number = Annotated[float, Limit(is_number, "a number")]
Whole = Annotated[int, Limit(lambda n: type(n) is int and is_number(n), "a whole number")]
Text = Annotated[str, Limit(is_writable, "text")]


def has(what: str, key: str | None = None) -> Any:
    """Define a required field.

    what: the description of the field.
    key: its JSON key, if this differs from the name of the field.
    """
    return option(what, key=key) if key else option(what)


def may_have(what: str) -> Any:
    """Define an optional field with this description; its value is ABSENT if the key is missing."""
    return option(what, ABSENT)
