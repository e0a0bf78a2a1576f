"""Register mechanisms, positions and tree providers by name.

Invalid classes are rejected when they are registered, so that their authors see errors immediately.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from torch.nn import ModuleDict

from fairseq_posattn.core.option_values import expected, fault_of, kinds_of, read, write
from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Kind = TypeVar("Kind")

NAME = re.compile(r"[a-z]\w*")
# Models store mechanisms and positions by name in a ModuleDict. It rejects names of its attributes.
TAKEN_BY_TORCH = frozenset(dir(ModuleDict()))


class RegistrationError(InputError):
    """Raised if a class cannot be registered; the message states its name, file and line."""


def add(
    table: dict[str, type[Kind]],
    cls: type[Any],
    base: type[Kind],
    kind: str,
    reserved: Container[str] = (),
    check: Callable[[type[Any]], None] = lambda cls: None,
) -> None:
    """Add a class to a registry under its name; raise a RegistrationError if it is invalid.

    kind: the term for the class in error messages, for example 'mechanism'.
    reserved: names that are not allowed.
    check: a function that performs further checks and raises a RegistrationError if one fails.
    """
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        raise RegistrationError(
            f"{place_of(cls)} is not a {kind}; derive it from {base.__name__} or a subclass"
        )
    name = name_of(cls, kind, reserved)
    if hasattr(cls, "Options"):
        check_options(cls)
    check(cls)
    other = table.setdefault(name, cls)
    if other is not cls:
        raise RegistrationError(
            f"{place_of(cls)}: the {kind} '{name}' is already registered as {place_of(other)}; "
            "rename one of them"
        )


def name_of(cls: type[Any], kind: str, reserved: Container[str]) -> str:
    """Return the name of a class; raise a RegistrationError if it is invalid."""
    name = getattr(cls, "name", None)
    if not isinstance(name, str):
        raise RegistrationError(
            f'{place_of(cls)} has no name; define name = "..." in the class (the name of the '
            f"{kind} on the command line)"
        )
    if not NAME.fullmatch(name) or name == "help":
        raise RegistrationError(
            f"{place_of(cls)}: '{name}' cannot be the name of a {kind}; use a lower-case letter "
            "followed by letters, digits and '_', except 'help'"
        )
    if name in reserved:
        raise RegistrationError(
            f"{place_of(cls)}: '{name}' is reserved by torch; rename the {kind}"
        )
    return name


def check_labels(cls: type[Any]) -> None:
    """Raise a RegistrationError if `needs_labels` is invalid or set without needs_tree."""
    kinds = cls.needs_labels
    if not isinstance(kinds, tuple) or not set(kinds) <= {"relations", "tags"}:
        raise RegistrationError(
            f"{place_of(cls)}: needs_labels = {kinds!r} is not a tuple of label types; write "
            '("relations",), ("tags",) or ("relations", "tags")'
        )
    if kinds and not cls.needs_tree:
        raise RegistrationError(
            f"{place_of(cls)}: needs_labels requires trees; add needs_tree = True"
        )


def check_texts(mechanism: type[Any]) -> None:
    """Raise a RegistrationError unless `examples` and `unseen` are tuples of strings."""
    for name in ("examples", "unseen"):
        texts = getattr(mechanism, name)
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            raise RegistrationError(
                f"{place_of(mechanism)}: {name} = {texts!r} is not a tuple of strings; write "
                'for example ("a", "b") or ("a",)'
            )
    check_labels(mechanism)
    if not mechanism.examples:
        raise RegistrationError(
            f"{place_of(mechanism)}: examples = () is empty, so nothing would be tested; write "
            'examples = ("",) for the defaults'
        )


def check_options(cls: type[Any]) -> None:
    """Raise a RegistrationError if an option of a class cannot be written in a specification."""
    check_dataclass(cls, cls.Options)
    if getattr(cls, "CrossOptions", None) is not None:
        check_dataclass(cls, cls.CrossOptions)


def check_dataclass(cls: type[Any], options: Any) -> None:
    """Raise a RegistrationError unless Options is a dataclass with valid fields."""
    if not (inspect.isclass(options) and dataclasses.is_dataclass(options)):
        raise RegistrationError(
            f"{place_of(cls)}: its class {getattr(options, '__name__', 'Options')} is not a "
            "dataclass; decorate it with @dataclass(frozen=True)"
        )
    for field in dataclasses.fields(options):
        fault = fault_of_option(field, kinds_of(options)[field.name])
        if fault is not None:
            raise RegistrationError(f"{place_of(cls)}: option '{field.name}' is invalid: {fault}")


def fault_of_option(field: dataclasses.Field[Any], kind: Any) -> str | None:
    """Return what is wrong with the definition of an option, or None if it is valid."""
    if field.name == "heads":
        return "this name is reserved in specifications; choose another one"
    if fault := fault_of(kind):
        return f"{fault}; change its type"
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        return "it has no default; add one"
    if not comes_back(default, kind):
        return f"its default {default!r} cannot be written as {kind}; change it"
    return None


def comes_back(value: Any, kind: Any) -> bool:
    """Return whether a value is unchanged after writing it to a specification and parsing it."""
    try:
        text = write(value, kind)
        return bool(text.strip()) and not set(text) & set(",()") and bool(read(text, kind) == value)
    except (AttributeError, TypeError, ValueError):
        return False


def place_of(cls: Any) -> str:
    """Return the name, file and line of a class, as in 'Mine (my_folder/mine.py:12)'."""
    name = getattr(cls, "__qualname__", repr(cls))
    try:
        return f"{name} ({inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]})"
    except (OSError, TypeError):  # defined interactively or dynamically
        return f"{name} ({getattr(cls, '__module__', 'unknown place')})"


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
    """Format an option in columns; if it is long, its meaning starts on a new line."""
    start = f"    {default:<18}  "
    column = " " * (len(start) + KIND_WIDTH + 2)
    if len(kind) > KIND_WIDTH or len(default) > 18:
        first = textwrap.wrap(kind, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        return first + textwrap.wrap(
            meaning, WIDTH, initial_indent=column, subsequent_indent=column
        )
    start = f"{start}{kind:<{KIND_WIDTH}}  "
    return textwrap.wrap(meaning, WIDTH, initial_indent=start, subsequent_indent=column)
