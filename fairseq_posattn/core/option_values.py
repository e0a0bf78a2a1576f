"""Define how the values of options are written in specifications, depending on their type.

| Type of the field              | Notation                                                     |
|--------------------------------|--------------------------------------------------------------|
| `bool`                         | `true` or `false`                                            |
| `int`, `float`, `str`          | `3`, `0.5`, `zeros`                                          |
| an `enum.Enum`                 | the name of a member in lower case                           |
| `X | None`                     | `none`, or the notation of X                                 |
| `tuple[X, ...]`, `tuple[X, Y]` | values separated by bars, `3|5|7`; `|` for an empty tuple    |

`write` returns the canonical notation of a value, and `read` converts a notation to its value.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from fairseq_posattn.files.numbers import decimal_number, plain_number
from fairseq_posattn.files.records import LIMIT, limit, shown, without_none

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
INFINITE = ("inf", "-inf")
BAR = "|"
NONE = "none"
LARGEST = 2**16  # longer than any sentence; larger values are assumed to be typos
MOST_LAYERS = 32
ANY_SIZE = "any_size"  # metadata key of options that may exceed LARGEST, as they need no memory
Value = TypeVar("Value")


def option(default: Value, meaning: str, limit: Mapping[str, Any] = MappingProxyType({})) -> Value:
    """Return a dataclass field for an option, with its default and its description for `help`.

        size: int = option(3, "number of keys in the window", at_least(1))

    limit: field metadata that restricts the values, for example the result of `at_least` or `limit`
        in `fairseq_posattn.files.records`.
    """
    return dataclasses.field(default=default, metadata={"help": meaning, **limit})


def some_layers() -> Mapping[str, Any]:
    """Return field metadata that limits an option to a valid number of layers."""
    return limit(lambda count: 1 <= count <= MOST_LAYERS, f"1 to {MOST_LAYERS}")


def check_limits(options: DataclassInstance) -> None:
    """Raise a ValueError for the first option whose value is not allowed."""
    for field in dataclasses.fields(options):
        limits, value = field.metadata.get(LIMIT), getattr(options, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        huge = any(type(part) is int and abs(part) > LARGEST for part in parts)
        if huge and ANY_SIZE not in field.metadata:
            raise ValueError(
                f"{field.name}={shown(value)} is out of range; use a number within ±{LARGEST:,}"
            )
        if limits and not limits.admits(value):
            raise ValueError(f"{field.name}={value}: expected {limits.expected}")


def kinds_of(options: type[DataclassInstance]) -> dict[str, Any]:
    """Return a dictionary with the type of each option."""
    try:
        hints = get_type_hints(options)
    except NameError:  # the class is local to a function, so its annotations cannot be resolved
        hints = {}
    return {
        field.name: hints.get(field.name, type(field.default))
        for field in dataclasses.fields(options)
    }


def read(text: str, kind: Any) -> Any:
    """Parse a string as a value of this type; raise a ValueError if it is invalid."""
    if (inner := without_none(kind)) is not None:
        return None if text.lower() == NONE else read(text, inner)
    if get_origin(kind) is tuple:
        parts = [] if text == BAR else [part.strip() for part in text.split(BAR)]
        return tuple(map(read, parts, kinds_of_parts(kind, len(parts))))
    if is_enum(kind):
        return chosen(text, members(kind))
    if kind is bool:
        return chosen(text, {"true": True, "false": False})
    if not text:
        raise ValueError("the value is empty")
    readers = {int: plain_number, float: decimal_number}
    value = kind(text) if text in INFINITE else readers.get(kind, kind)(text)
    if value is None:
        raise ValueError(f"'{text}' is not {PLAIN[kind]}")
    return value


def chosen(text: str, values: Mapping[str, Any]) -> Any:
    if text.lower() not in values:
        raise ValueError(f"'{text}' is not one of {', '.join(values)}")
    return values[text.lower()]


def write(value: Any, kind: Any) -> str:
    """Return the canonical notation of a value."""
    if value is None:
        return NONE
    kind = without_none(kind) or kind
    if get_origin(kind) is tuple:
        parts = map(write, value, kinds_of_parts(kind, len(value)))
        return BAR.join(parts) if value else BAR
    if is_enum(kind):
        return str(value.name).lower()
    if kind is bool:
        return str(value).lower()
    return str(kind(value))


def expected(kind: Any) -> str:
    """Describe the valid notations of a type for an error message."""
    if (inner := without_none(kind)) is not None:
        return f"{NONE}, or {expected(inner)}"
    if get_origin(kind) is tuple:
        *parts, last = get_args(kind)
        if last is Ellipsis:
            return f"values joined by '{BAR}', each {expected(parts[0])}"
        return f"{len(parts) + 1} values joined by '{BAR}': " + ", ".join(
            map(expected, get_args(kind))
        )
    if is_enum(kind):
        return f"one of {', '.join(members(kind))}"
    return PLAIN[kind]


def fault_of(kind: Any) -> str | None:
    """Return the reason why an option cannot have this type, or None if it can."""
    if (inner := without_none(kind)) is not None:
        if is_enum(inner) and NONE in members(inner):
            return f"'{NONE}' would mean both None and a member of {inner.__name__}"
        return fault_of(inner)
    if get_origin(kind) is tuple and get_args(kind):
        parts = [part for part in get_args(kind) if part is not Ellipsis]
        if any(get_origin(part) is tuple for part in parts):
            return "a tuple cannot contain tuples"
        return next(filter(None, map(fault_of, parts)), None)
    if is_enum(kind):
        same = len(members(kind)) < len(kind.__members__)
        return f"members of {kind.__name__} differ only in case" if same else None
    if kind in PLAIN:
        return None
    return (
        f"{getattr(kind, '__name__', kind)} is not one of bool, int, float, str, an enum.Enum, "
        "tuple[X, ...], tuple[X, Y], X | None"
    )


def kinds_of_parts(kind: Any, count: int) -> tuple[Any, ...]:
    """Return the types of `count` elements of a tuple type, or raise a ValueError."""
    kinds = get_args(kind)
    if kinds[-1] is Ellipsis:
        return kinds[:1] * count
    if len(kinds) != count:
        raise ValueError(f"expected {len(kinds)} values, found {count}")
    return kinds


def is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def members(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    return {name.lower(): member for name, member in kind.__members__.items()}
