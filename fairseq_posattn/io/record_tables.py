"""Describe a JSON document in Markdown, from the dataclasses that check it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from fairseq_posattn.io.records import HELP, KINDS, has_default, key_of


def tables(kind: type) -> Iterator[str]:
    """Yield the lines of a section for a record, and for each record within it."""
    for record in records_in(kind):
        yield from ["", f"## {record.__name__}", ""]
        if record.__doc__ and not record.__doc__.startswith(f"{record.__name__}("):
            yield from [record.__doc__, ""]
        yield from ["| key | value | what it says |", "|---|---|---|"]
        yield from rows(record)


def rows(record: type) -> Iterator[str]:
    """Yield the rows of a record's table, one for each key."""
    types_of = get_type_hints(record, include_extras=True)
    for field in dataclasses.fields(record):
        key = f"`{key_of(field)}`{' (may be missing)' if has_default(field) else ''}"
        yield f"| {key} | {words(types_of[field.name])} | {field.metadata.get(HELP, '')} |"


def records_in(kind: type) -> list[type]:
    """Return a record and all records within it, each once, in the order in which they come."""
    found, index = [kind], 0
    while index < len(found):
        for annotation in get_type_hints(found[index], include_extras=True).values():
            found += [record for record in dataclasses_of(annotation) if record not in found]
        index += 1
    return found


def dataclasses_of(annotation: Any) -> Iterator[type]:
    """Yield the dataclasses that an annotation mentions."""
    if is_record(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from dataclasses_of(part)


def is_record(annotation: Any) -> bool:
    """Return whether an annotation is a dataclass."""
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def words(annotation: Any) -> str:
    """Return in English what values an annotation admits."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return f"null, or {words(parts[0])}"
    if origin is Annotated:
        return str(parts[1].expected)
    if origin is list:
        return f"a list, each item {words(parts[0])}"
    if origin is dict:
        return f"an object, each value {words(parts[1])}"
    if is_record(annotation):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return KINDS[annotation]
