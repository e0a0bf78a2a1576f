"""Format the text that `help` prints about each class: its purpose, paper and options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairseq_posattn.core.option_values import expected, kinds_of, write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WIDTH = 100  # columns of a terminal
KIND_WIDTH = 12  # columns for the type of an option
KINDS = {int: "whole number", float: "number", bool: "true/false", str: "word"}
NEEDS_TREES = "Requires dependency trees of the sentences."
NEEDS_LABELS = "Requires data with relation labels."
LEARNS_FROM_TREES = (
    "Training requires trees and --criterion tree_supervised_cross_entropy; translation does not."
)
NOTHING_SAID = "Its class has no docstring."
Row = tuple[str, str, str]  # name=default, type and meaning of an option


def help_text(
    introduction: str,
    classes: Mapping[str, type[Any]],
    remarks: Mapping[str, str],
    rows: Mapping[str, Sequence[Row]],
    options: Mapping[str, type[DataclassInstance]] | None = None,
) -> str:
    """Return the introduction, followed by one entry per class.

    remarks: for each class, a sentence to print below its description.
    rows: for each class, options that its dataclass does not contain, such as heads.
    options: for some classes, a dataclass that replaces their `Options`.
    """
    own = options or {}
    parts = [
        entry(name, cls, remarks.get(name, ""), rows.get(name, ()), own.get(name, cls.Options))
        for name, cls in classes.items()
    ]
    return "\n\n".join([introduction, *parts])


def entry(
    name: str, cls: type[Any], remark: str, rows: Sequence[Row], options: type[DataclassInstance]
) -> str:
    about = [first_paragraph(cls) or NOTHING_SAID, cls.paper, remark]
    indent = 4 * " "
    lines = [
        textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=indent)
        for line in about
        if line
    ]
    table = [line for row in [*rows_of(options), *rows] for line in lines_of(*row)]
    return "\n".join([name, *lines, *table])


def first_paragraph(cls: type[Any]) -> str:
    """Return the first paragraph of a class's own docstring as one line; "" if it has none."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    return " ".join(text.split("\n\n")[0].split())


def rows_of(options: type[DataclassInstance]) -> list[Row]:
    defaults, fields = options(), options.__dataclass_fields__
    return [
        (
            f"{name}={write(getattr(defaults, name), kind)}",
            KINDS.get(kind) or expected(kind),
            fields[name].metadata.get("help", "-"),
        )
        for name, kind in kinds_of(options).items()
    ]


def lines_of(default: str, kind: str, meaning: str) -> list[str]:
    """Format an option in columns; after a long one, the meaning starts on a new line."""
    start = f"    {default:<18}  "
    column = " " * (len(start) + KIND_WIDTH + 2)
    if len(kind) > KIND_WIDTH or len(default) > 18:
        first = textwrap.wrap(kind, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        return first + textwrap.wrap(
            meaning, WIDTH, initial_indent=column, subsequent_indent=column
        )
    start = f"{start}{kind:<{KIND_WIDTH}}  "
    return textwrap.wrap(meaning, WIDTH, initial_indent=start, subsequent_indent=column)
