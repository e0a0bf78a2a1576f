"""Parse and format specifications such as 'relative(max=16)@0-2 + tree_relative'.

A specification consists of terms joined by '+'. A term consists of a name, options in parentheses,
and layers after '@'. The indices of layers and heads start at 0 and are written as '3', '0-2',
'0|3' or '0-2|5'. The module `option_values` defines how the values of options are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fairseq_posattn.core.option_values import check_limits, expected, kinds_of, read, write
from fairseq_posattn.errors import InputError, names_like

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
Kind = TypeVar("Kind")

TERM = re.compile(
    r"(?P<name>[a-z]\w*)\s*(\((?P<options>[^()]*)\))?\s*(@\s*(?P<layers>[0-9\s|-]+))?"
)


class SpecificationError(InputError):
    """Raised for an invalid specification; the message explains how to correct it."""


class UnknownNameError(SpecificationError):
    """Raised if no class is registered under the given name."""

    def __init__(self, name: str, table: Mapping[str, type[Any]], kind: str):
        """Create the error; `kind` is what the message calls the classes, such as 'position'."""
        self.kind, self.name = kind, name
        super().__init__(
            f"no {kind} is called '{name}'; {names_like(name, table)}; "
            "import your own with --user-dir FOLDER"
        )


@dataclass(frozen=True)
class Term:
    """A parsed term with its name, options (as strings) and layers (None: default layers)."""

    name: str
    options: Mapping[str, str]
    layers: tuple[int, ...] | None = None


def parse(text: str) -> list[Term]:
    """Return the terms of a specification in order."""
    text = text.strip()
    parts = re.split(r"\+(?![^(]*\))", text) if text else []  # at every '+' outside of brackets
    return [parse_term(part.strip(), text) for part in parts]


def parse_term(part: str, whole: str) -> Term:
    """Parse one term; `whole` is the specification that error messages quote."""
    match = TERM.fullmatch(part)
    if match is None:
        raise SpecificationError(
            f"cannot read '{part}' in '{whole}': "
            "expected name(option=value, ...)@layers, for example 'relative(max=16)@0-2'"
        )
    layers = parse_numbers(match["layers"]) if match["layers"] else None
    return Term(match["name"], parse_options(match["options"] or "", part), layers)


def parse_options(text: str, part: str) -> dict[str, str]:
    """Parse 'name=value, name=value'; `part` is the term that error messages quote."""
    options: dict[str, str] = {}
    for pair in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (key and equals and value):
            raise SpecificationError(f"cannot read '{pair}' in '{part}': expected option=value")
        if key in options:
            raise SpecificationError(f"'{key}' occurs twice in '{part}'; remove one")
        options[key] = value
    return options


def parse_numbers(text: str) -> tuple[int, ...]:
    """Parse a list of numbers: '0-2|5' gives (0, 1, 2, 5)."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split("|"):
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise SpecificationError(f"cannot read '{text}': expected numbers like 0-2 or 0|3")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def format_numbers(numbers: tuple[int, ...]) -> str:
    """Format a list of numbers: (0, 1, 2, 5) gives '0-2|5'."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def registered(name: str, table: Mapping[str, type[Kind]], kind: str) -> type[Kind]:
    """Return the class of this name, or raise an UnknownNameError that lists similar names."""
    if name not in table:
        raise UnknownNameError(name, table, kind)
    return table[name]


def reason_against_decoders(cls: Any) -> str | None:
    """Return why a decoder cannot use a mechanism or position, or None if it can."""
    if cls.needs_tree:
        return "reads trees, but target sentences have none"
    if not cls.causal_safe:
        return "depends on words that are not yet translated"
    return None


def refuse_in_decoders(
    chosen: Iterable[type[Any]],
    reason_against: Callable[[type[Any]], str | None],
    option: str,
    safe: Iterable[str],
) -> None:
    """Raise a SpecificationError for the first class that a decoder cannot use.

    reason_against: a function that returns why a class cannot be used, or None if it can.
    option: the command-line option that the message names, such as --decoder-attention.
    safe: names that the error message suggests instead.
    """
    for cls in chosen:
        if reason := reason_against(cls):
            raise SpecificationError(f"'{cls.name}' {reason}; {option} takes: {', '.join(safe)}")


def make_options(term: Term, options_class: type[Options]) -> Options:
    """Convert a term's options to a dataclass; raise a SpecificationError if they are invalid."""
    kinds = kinds_of(options_class)
    values: dict[str, Any] = {}
    for key, text in term.options.items():
        if key not in kinds:
            known = ", ".join(kinds) or "none"
            raise SpecificationError(f"'{term.name}' has no option '{key}'; its options: {known}")
        values[key] = convert(text, kinds[key], f"{term.name}({key}={text})")
    try:
        options = options_class(**values)
        check_limits(options)
        return options
    except ValueError as error:
        raise SpecificationError(f"{term.name}: {error}") from None


def convert(text: str, kind: Any, where: str) -> Any:
    """Convert a string to a value of this type; `where` is a prefix of the error message."""
    try:
        return read(text, kind)
    except ValueError:
        raise SpecificationError(f"{where}: expected {expected(kind)}") from None


def format_options(options: DataclassInstance) -> list[str]:
    """Return 'key=value' for every option.

    Defaults are included, so that the specification keeps its meaning if a default changes.
    """
    kinds = kinds_of(type(options))
    return [f"{name}={write(getattr(options, name), kind)}" for name, kind in kinds.items()]


def format_term(name: str, pairs: list[str], layers: tuple[int, ...] | None = None) -> str:
    """Format a term, such as 'window(size=11)@0-2'."""
    brackets = f"({', '.join(pairs)})" if pairs else ""
    return name + brackets + ("" if layers is None else f"@{format_numbers(layers)}")
