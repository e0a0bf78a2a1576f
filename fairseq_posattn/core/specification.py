"""The grammar that describes a model in one line: 'relative(max=16)@0-2 + tree_relative'.

Terms are joined by '+'; a term is a name, options in brackets, and the layers after '@'. Layers and
heads are counted from 0 and written as '3', '0-2', '0|3' or '0-2|5'.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
Kind = TypeVar("Kind")

TERM = re.compile(r"(?P<name>[a-z]\w*)\s*(\((?P<options>[^()]*)\))?\s*(@\s*(?P<layers>[\d\s|-]+))?")


class SpecificationError(InputError):
    """A specification that cannot work: says what is wrong and what would be right."""


@dataclass(frozen=True)
class Term:
    """One mechanism as written: its name, its options as strings, its layers (None: all)."""

    name: str
    options: Mapping[str, str]
    layers: tuple[int, ...] | None = None


def parse(text: str) -> list[Term]:
    """The terms of a specification, in order; an empty one has none."""
    text = text.strip()
    return [parse_term(part, text) for part in split_terms(text)] if text else []


def split_terms(text: str) -> list[str]:
    """Split at every '+' outside of brackets."""
    return [part.strip() for part in re.split(r"\+(?![^(]*\))", text)]


def parse_term(part: str, whole: str) -> Term:
    match = TERM.fullmatch(part)
    if match is None:
        raise SpecificationError(
            f"cannot read '{part}' in '{whole}': "
            "expected name(option=value, ...)@layers, as in 'relative(max=16)@0-2'"
        )
    layers = parse_numbers(match["layers"]) if match["layers"] else None
    return Term(match["name"], parse_options(match["options"] or "", part), layers)


def parse_options(text: str, part: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (key and equals and value):
            raise SpecificationError(f"cannot read '{pair}' in '{part}': expected option=value")
        if key in options:
            raise SpecificationError(f"'{key}' stands twice in '{part}'")
        options[key] = value
    return options


def parse_numbers(text: str) -> tuple[int, ...]:
    """'0-2|5' -> (0, 1, 2, 5)."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split("|"):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise SpecificationError(f"cannot read '{text}': expected numbers like 0-2 or 0|3")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def format_numbers(numbers: tuple[int, ...]) -> str:
    """(0, 1, 2, 5) -> '0-2|5'."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def lookup(term: Term, table: Mapping[str, type[Kind]], kind: str) -> type[Kind]:
    if term.name not in table:
        known = ", ".join(sorted(table)) or "none"
        raise SpecificationError(f"no {kind} is called '{term.name}'; there are: {known}")
    return table[term.name]


def make_options(term: Term, options_class: type[Options]) -> Options:
    """The options dataclass filled from the term's strings; unknown keys are refused."""
    fields = {field.name: field for field in dataclasses.fields(options_class)}
    values: dict[str, Any] = {}
    for key, text in term.options.items():
        if key not in fields:
            known = ", ".join(fields) or "no options"
            raise SpecificationError(f"'{term.name}' has no option '{key}'; it has: {known}")
        values[key] = convert(text, fields[key].default, f"{term.name}({key}={text})")
    try:
        return options_class(**values)
    except ValueError as error:
        raise SpecificationError(f"{term.name}: {error}") from None


def convert(text: str, default: Any, where: str) -> Any:
    """The text as a value of the default's type."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise SpecificationError(f"{where}: expected true or false")
        return text.lower() == "true"
    try:
        return type(default)(text)
    except ValueError:
        raise SpecificationError(f"{where}: expected {type(default).__name__}") from None


def format_options(options: DataclassInstance) -> list[str]:
    """'key=value' for every option, so that a canonical string outlives a change of defaults."""
    values = dataclasses.asdict(options).items()
    return [
        f"{key}={str(value).lower() if value is True or value is False else value}"
        for key, value in values
    ]


def format_term(name: str, pairs: list[str], layers: tuple[int, ...] | None = None) -> str:
    brackets = f"({', '.join(pairs)})" if pairs else ""
    return name + brackets + ("" if layers is None else f"@{format_numbers(layers)}")
