"""Print a page of the documentation site: the JSON of posattn score, from its dataclasses.

python -m fairseq_posattn.scoring.score_document
"""

import dataclasses
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from fairseq_posattn.files.records import HELP, KINDS, has_default, key_of
from fairseq_posattn.scoring.score_record import ScoredSystem

INTRODUCTION = """\
# The JSON of a scored system

`posattn score ... --json FILE` writes this file, `posattn examples` a list of \
[Example](#example), and `posattn heads` [Heads](#heads). A key with a question mark may be \
missing; unknown keys are ignored. Pieces are subword units. With several runs, translations are \
those of the first run."""


SHORT = {"true or false": "boolean", "a whole number": "integer", "a number": "number"}


def tables(kind: type) -> Iterator[str]:
    """Yield the Markdown lines, with one section for each record that `kind` contains."""
    for record in records_in(kind):
        yield from ["", f"## {record.__name__}", ""]
        if record.__doc__ and not record.__doc__.startswith(f"{record.__name__}("):
            yield from [" ".join(record.__doc__.split()), ""]
        yield from keys(record)


def keys(record: type) -> Iterator[str]:
    """Yield one line for each key of a record; optional keys have a question mark."""
    types_of = get_type_hints(record, include_extras=True)
    base = base_of(record)
    if base:
        yield f"- all keys of {words(base)}"
    for field in dataclasses.fields(record):
        if base and field.name in base.__dataclass_fields__:
            continue
        missing = "?" if has_default(field) else ""
        value = words(types_of[field.name])
        text = field.metadata.get(HELP, "").removeprefix("the ")
        yield f"- `{key_of(field)}`{missing} ({value}): {text}"


def base_of(record: type) -> Any:
    """Return a record's base class that is itself a record with keys, or None."""
    return next((b for b in record.__bases__ if is_record(b) and dataclasses.fields(b)), None)


def records_in(kind: type) -> list[type]:
    """Return a record and all nested records without duplicates, in the order of the document."""
    found, index = [kind], 0
    while index < len(found):
        hints = get_type_hints(found[index], include_extras=True)
        for annotation in [base_of(found[index]), *hints.values()]:
            found += [record for record in dataclasses_of(annotation) if record not in found]
        index += 1
    return found


def dataclasses_of(annotation: Any) -> Iterator[type]:
    if is_record(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from dataclasses_of(part)


def is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def words(annotation: Any) -> str:
    """Return a short description of the values that a type annotation allows."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return f"null or {words(parts[0])}"
    if origin is Annotated:
        return SHORT.get(str(parts[1].expected), str(parts[1].expected))
    if origin is list:
        return f"list of {words(parts[0])}"
    if origin is dict:
        return f"object of {words(parts[1])}"
    if is_record(annotation):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return SHORT.get(KINDS[annotation], KINDS[annotation])


def document() -> str:
    return "\n".join([INTRODUCTION, *tables(ScoredSystem)]) + "\n"


if __name__ == "__main__":
    print(document(), end="")
