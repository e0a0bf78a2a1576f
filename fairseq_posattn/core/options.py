"""The options of mechanisms and positions are fields that carry the text of `help`."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

Value = TypeVar("Value")


def option(default: Value, meaning: str) -> Value:
    """Return a field of a dataclass of options, with its default and what `help` says about it."""
    return dataclasses.field(default=default, metadata={"help": meaning})
