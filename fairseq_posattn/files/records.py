"""Validate JSON documents against dataclasses: their keys, types and permitted values.

A field without a default is a required key. Its annotation may be bool, int, float, str, dict,
list[...], dict[str, ...], another dataclass, or `X | None`, where X is one of these types. `option`
describes a field and limits its values; without a description, the metadata of the field limit
them. If the annotation contains a `Limit`, the limit is checked instead of the type:

    column: str = option("column with the tags", "upos", one_of("upos", "xpos"))
    count: int = field(metadata=at_least(1))
    loss: Annotated[float, Limit(is_small, "a small number")]

Fields made by `option` can also be options of a command line (`fairseq_posattn.files.requests`).

If a key is missing in the document, its field has the default value. `as_document` omits fields
whose value is ABSENT.
"""

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json_value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")
LIMIT, KEY, HELP = "limit", "key", "help"
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
NO_LIMIT: Mapping[str, Any] = types.MappingProxyType({})
SHOWN = 40  # a message shows this many characters of a value


class Misfit(Exception):
    """Raised if a value in a document is invalid; `as_record` adds the file name."""


class Limit(NamedTuple):
    """A predicate for permitted values, and a description of these values for error messages.

    choices: all permitted values, if these are few strings.
    """

    admits: Callable[[Any], bool]
    expected: str
    choices: tuple[str, ...] = ()


class Absent:
    """The type of ABSENT, the default of fields that distinguish a missing key from null."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """Make pickle and copy return the single instance."""
        return "ABSENT"


ABSENT: Any = Absent()


def known(value: Any) -> Any:
    """Return None for ABSENT, and any other value unchanged."""
    return None if value is ABSENT else value


class Open:
    """Base class of records that ignore unknown keys of the document."""


def option(
    help: str, default: Any = dataclasses.MISSING, limit: Mapping[str, Any] = NO_LIMIT, **more: Any
) -> Any:
    """Return a dataclass field with a description, a default and a limit such as `at_least(1)`.

    more: `key`, the key in JSON if it differs from the field name, and the keywords that
        `fairseq_posattn.files.requests` lists.
    """
    metadata = {HELP: help, **limit, **more}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def key_of(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get(KEY, field.name))


def one_of(*choices: str) -> Mapping[str, Any]:
    """Return field metadata that permits only these strings."""
    return {LIMIT: Limit(lambda value: value in choices, " or ".join(choices), choices)}


def at_least(least: int) -> Mapping[str, Any]:
    """Return field metadata that permits only numbers greater than or equal to `least`."""
    return limit(lambda value: value >= least, f"at least {least}")


def between(least: float, most: float) -> Mapping[str, Any]:
    """Return field metadata that permits only numbers from `least` to `most`."""
    kind, form = ("a whole number", ",") if isinstance(least, int) else ("a number", ",g")
    expected = f"{kind} from {least:{form}} to {most:{form}}"
    return limit(lambda value: least <= value <= most, expected)


def plain_name() -> Mapping[str, Any]:
    """Return field metadata that permits only file names without a folder."""
    return limit(
        lambda value: value not in ("", ".", "..") and "/" not in value, "a name without a folder"
    )


def limit(admits: Callable[[Any], bool], expected: str) -> Mapping[str, Any]:
    """Return field metadata that permits only values for which `admits` is true.

    expected: a description of these values for error messages, such as "an odd number".
    """
    return {LIMIT: Limit(admits, expected)}


def read_record(kind: type[Record], path: str | Path, remedy: str) -> Record:
    """Read a JSON file as an instance of a dataclass; error messages end with `remedy`."""
    return as_record(kind, read_json_value(path, remedy), str(path), remedy)


def as_record(kind: type[Record], document: object, where: str, remedy: str) -> Record:
    """Convert a JSON document to a dataclass; raise an InputError for the first invalid value."""
    try:
        return _record(kind, document, "")
    except Misfit as misfit:
        raise InputError(f"{where}: {misfit}; {remedy}") from None


def as_document(value: Any) -> Any:
    """Convert a record to a JSON document; fields whose value is ABSENT are omitted."""
    if dataclasses.is_dataclass(value):
        pairs = [(key_of(field), getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {key: as_document(part) for key, part in pairs if part is not ABSENT}
    if isinstance(value, dict):
        return {key: as_document(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_document(part) for part in value]
    return value


def _record(kind: type[Record], document: object, name: str) -> Record:
    if not isinstance(document, dict):
        raise misfit(name, document, "an object")
    fields = {key_of(field): field for field in dataclasses.fields(kind)}
    inside = f"{name}." if name else ""
    _check_keys(kind, fields, document, inside)
    types_of, values = get_type_hints(kind, include_extras=True), {}
    for key, field in fields.items():
        if key in document:
            kind_of_value = types_of[field.name]
            values[field.name] = field_value(field, kind_of_value, document[key], inside + key)
    try:
        return kind(**values)
    except InputError as error:  # raised by the dataclass itself
        raise Misfit(f"{name}: {error}" if name else str(error)) from None


def field_value(field: dataclasses.Field[Any], kind: Any, value: object, name: str) -> Any:
    """Return a value of a document for a field; raise a Misfit if it is invalid.

    kind: type of the field.
    name: key in the document, for the error message.
    """
    value = _value(kind, value, name)
    limit = field.metadata.get(LIMIT)
    if limit and value is not None and not limit.admits(value):
        raise misfit(name, value, limit.expected)
    return value


def _check_keys(
    kind: type, fields: Mapping[str, dataclasses.Field[Any]], document: dict[str, Any], inside: str
) -> None:
    """Raise a Misfit if a key is unknown or missing."""
    if not issubclass(kind, Open):
        for unknown in sorted(document.keys() - fields.keys()):
            raise Misfit(f"{inside}{shown(unknown)} is not a known key")
    for key, field in fields.items():
        if key not in document and not has_default(field):
            raise Misfit(f"{inside}{key} is missing")


def _value(kind: Any, value: object, name: str) -> Any:
    if (inner := without_none(kind)) is not None:
        return None if value is None else _value(inner, value, name)
    if get_origin(kind) is Annotated:
        limit = get_args(kind)[1]
        if not limit.admits(value):
            raise misfit(name, value, limit.expected)
        return value
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, value, name)
    plain = get_origin(kind) or kind
    if not is_of(plain, value):
        raise misfit(name, value, KINDS[plain])
    kinds, parts = get_args(kind), cast(Any, value)
    if plain is list and kinds:
        return [_value(kinds[0], part, f"{name}[{k}]") for k, part in enumerate(parts)]
    if plain is dict and kinds:
        return {key: _value(kinds[1], part, f"{name}.{key}") for key, part in parts.items()}
    return value


def without_none(kind: Any) -> Any:
    """Return X for the type `X | None`, and None for all other types."""
    if get_origin(kind) not in (Union, types.UnionType):
        return None
    others = [part for part in get_args(kind) if part is not types.NoneType]
    return others[0] if len(others) == 1 and len(get_args(kind)) == 2 else None


def is_of(kind: type, value: Any) -> bool:
    """Return whether a JSON value has this type; true, NaN and infinity are not numbers."""
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    if kind is str:
        return type(value) is str and is_text(value)
    return type(value) is kind


def is_text(value: str) -> bool:
    """Return whether a string can be encoded in UTF-8 and contains no null characters.

    File names must meet these conditions.
    """
    try:
        return b"\0" not in value.encode("utf-8")
    except UnicodeEncodeError:
        return False


def has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def misfit(name: str, value: object, expected: str) -> Misfit:
    return Misfit(f"{name or 'the document'} is {shown(value)}, expected {expected}")


def shown(value: object) -> str:
    """Return a value as JSON, truncated for an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)  # str: for dates in TOML
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        return f"a very long {KINDS.get(type(value), 'value').removeprefix('a ')}"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
