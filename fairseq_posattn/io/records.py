"""JSON documents that must be what a dataclass says: its fields, their types and limits.

A field without a default must be there. The annotations may be bool, int, float, str, list[...],
dict, other dataclasses, and any of these or None. Limits stand in the field's metadata:

    column: str = field(default="upos", metadata=one_of("upos", "xpos"))
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairseq_posattn.errors import InputError

Record = TypeVar("Record")
LIMIT = "limit"
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
SHOWN = 40  # characters of a value in a message


class Misfit(Exception):
    """What does not fit, without the name of the file."""


def one_of(*choices: str) -> Mapping[str, Any]:
    return limit(lambda value: value in choices, " or ".join(choices))


def at_least(least: int) -> Mapping[str, Any]:
    return limit(lambda value: value >= least, f"at least {least}")


def plain_name() -> Mapping[str, Any]:
    """A name that cannot lead out of its folder."""
    return limit(
        lambda value: value not in ("", ".", "..") and "/" not in value, "a name without a folder"
    )


def limit(admits: Callable[[Any], bool], expected: str) -> Mapping[str, Any]:
    return {LIMIT: (admits, expected)}


def as_record(kind: type[Record], document: object, where: str, remedy: str) -> Record:
    """The dataclass that a JSON document describes, or an error that names the first misfit."""
    try:
        return _record(kind, document, "")
    except Misfit as misfit:
        raise InputError(f"{where}: {misfit}; {remedy}") from None


def _record(kind: type, document: object, name: str) -> Any:
    if not isinstance(document, dict):
        raise misfit(name, document, "an object")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    types_of = get_type_hints(kind)
    inside = f"{name}." if name else ""
    for unknown in sorted(document.keys() - fields.keys()):
        raise Misfit(f"{inside}{shown(unknown)} is not known to this version")
    for missing in sorted(fields.keys() - document.keys()):
        if not has_default(fields[missing]):
            raise Misfit(f"{inside}{missing} is missing")
    values = {key: _value(types_of[key], value, inside + key) for key, value in document.items()}
    for key, value in values.items():
        check_limit(fields[key], value, inside + key)
    try:
        return kind(**values)
    except InputError as error:  # of the dataclass itself
        raise Misfit(str(error)) from None


def _value(kind: Any, value: object, name: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return _any_of(get_args(kind), value, name)
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, name)
    plain = get_origin(kind) or kind
    if not is_of(plain, value):
        raise misfit(name, value, KINDS[plain])
    if plain is list and get_args(kind):
        (item,) = get_args(kind)
        return [_value(item, part, f"{name}[{k}]") for k, part in enumerate(value)]
    return value


def _any_of(kinds: Iterable[Any], value: object, name: str) -> Any:
    """The value, or null."""
    (kind,) = [kind for kind in kinds if kind is not type(None)]
    return None if value is None else _value(kind, value, name)


def is_of(kind: type, value: object) -> bool:
    """Whether a value of JSON is of this kind; true is no number, and NaN is none."""
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    if kind is str:
        return type(value) is str and is_text(value)
    return type(value) is kind


def is_text(value: str) -> bool:
    """Whether it can be written to a file and be the name of one."""
    try:
        return b"\0" not in value.encode("utf-8")
    except UnicodeEncodeError:
        return False


def has_default(field: dataclasses.Field) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def check_limit(field: dataclasses.Field, value: Any, name: str) -> None:
    admits, expected = field.metadata.get(LIMIT, (None, ""))
    if admits is not None and value is not None and not admits(value):
        raise misfit(name, value, expected)


def misfit(name: str, value: object, expected: str) -> Misfit:
    return Misfit(f"{name or 'the whole'} is {shown(value)}, expected {expected}")


def shown(value: object) -> str:
    """A value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"a very long {KINDS.get(type(value), 'value').removeprefix('a ')}"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
