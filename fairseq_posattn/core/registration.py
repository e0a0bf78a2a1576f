"""Classes are entered into tables by name, and a class that cannot work is refused.

Mechanisms, positions and tree providers are known by the `name` of their class. A mistake in such a
class is reported when it is registered, because that is where its author sees it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Container
from typing import Any, TypeVar

from torch.nn import ModuleDict

from fairseq_posattn.core.option_values import fault_of, kinds_of, read, write
from fairseq_posattn.errors import InputError

Kind = TypeVar("Kind")

NAME = re.compile(r"[a-z]\w*")
# A model keeps its mechanisms and positions in a ModuleDict, where these names mean something else.
TAKEN_BY_TORCH = frozenset(dir(ModuleDict()))


class RegistrationError(InputError):
    """This class cannot be registered; the message names it, its file and its line."""


def add(
    table: dict[str, type[Kind]],
    cls: type[Any],
    base: type[Kind],
    kind: str,
    reserved: Container[str] = (),
    check: Callable[[type[Any]], None] = lambda cls: None,
) -> None:
    """Enter a class into a table under its name, or raise a RegistrationError.

    kind says what the class should be, as 'mechanism'; reserved are names that it must not have;
    check raises a RegistrationError for what classes of this kind must not do.
    """
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        raise RegistrationError(
            f"{place_of(cls)} is no {kind}: derive it from {base.__name__}, or a class below it"
        )
    name = name_of(cls, kind, reserved)
    if hasattr(cls, "Options"):
        check_options(cls)
    check(cls)
    other = table.setdefault(name, cls)
    if other is not cls:
        raise RegistrationError(
            f"{place_of(cls)}: a {kind} called '{name}' is registered already, "
            f"{place_of(other)}; give one of them another name"
        )


def name_of(cls: type[Any], kind: str, reserved: Container[str]) -> str:
    """Return the name of a class, which must be one that a command line can hold."""
    name = getattr(cls, "name", None)
    if not isinstance(name, str):
        raise RegistrationError(
            f'{place_of(cls)} has no name: write name = "..." in the class, '
            f"by which a command line calls the {kind}"
        )
    if not NAME.fullmatch(name) or name == "help":
        raise RegistrationError(
            f"{place_of(cls)}: '{name}' cannot be the name of a {kind}: take a small letter, then "
            "letters, digits and '_' (but not 'help')"
        )
    if name in reserved:
        raise RegistrationError(
            f"{place_of(cls)}: '{name}' means something else in torch; give the {kind} another name"
        )
    return name


def check_labels(cls: type[Any]) -> None:
    """Refuse a class that reads labels of words which do not exist, or that reads no trees."""
    kinds = cls.needs_labels
    if not isinstance(kinds, tuple) or not set(kinds) <= {"relations", "tags"}:
        raise RegistrationError(
            f"{place_of(cls)}: needs_labels = {kinds!r} is no tuple of kinds of labels; write "
            '("relations",), ("tags",) or ("relations", "tags")'
        )
    if kinds and not cls.needs_tree:
        raise RegistrationError(
            f"{place_of(cls)}: labels come with trees; write needs_tree = True beside needs_labels"
        )


def check_texts(mechanism: type[Any]) -> None:
    """Refuse attributes of a mechanism that are no tuples of texts: ("w") without its comma."""
    for name in ("examples", "unseen"):
        texts = getattr(mechanism, name)
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            raise RegistrationError(
                f"{place_of(mechanism)}: {name} = {texts!r} is no tuple of texts; write it in "
                "brackets, with a comma after each"
            )
    check_labels(mechanism)
    if not mechanism.examples:
        raise RegistrationError(
            f"{place_of(mechanism)}: examples = () leaves nothing to check; "
            'write examples = ("",) for the defaults'
        )


def check_options(cls: type[Any]) -> None:
    """Refuse a class with options that a specification could not write, or not read back."""
    check_dataclass(cls, cls.Options)
    if getattr(cls, "CrossOptions", None) is not None:
        check_dataclass(cls, cls.CrossOptions)


def check_dataclass(cls: type[Any], options: Any) -> None:
    """Refuse options of a class that are no dataclass, or that a specification cannot write."""
    if not (inspect.isclass(options) and dataclasses.is_dataclass(options)):
        raise RegistrationError(
            f"{place_of(cls)}: its Options are no dataclass; write @dataclass(frozen=True) above "
            "that class"
        )
    for field in dataclasses.fields(options):
        fault = fault_of_option(field, kinds_of(options)[field.name])
        if fault is not None:
            raise RegistrationError(f"{place_of(cls)}: option '{field.name}': {fault}")


def fault_of_option(field: dataclasses.Field[Any], kind: Any) -> str | None:
    """Return what is wrong with an option, and what to do; None: nothing."""
    if field.name == "heads":
        return "a specification uses that name itself; take another one"
    if fault := fault_of(kind):
        return f"{fault}; give it another type"
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        return "it has no default; give it one"
    if not comes_back(default, kind):
        return f"its default {default!r} cannot be written as {kind}; give it another one"
    return None


def comes_back(value: Any, kind: Any) -> bool:
    """Return whether a specification can write a value and read it back."""
    try:
        text = write(value, kind)
        return bool(text.strip()) and not set(text) & set(",()") and bool(read(text, kind) == value)
    except (AttributeError, TypeError, ValueError):
        return False


def place_of(cls: Any) -> str:
    """Return the name of a class and where it is written: 'Mine (my_folder/mine.py:12)'."""
    name = getattr(cls, "__qualname__", repr(cls))
    try:
        return f"{name} ({inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]})"
    except (OSError, TypeError):  # typed at a prompt, or made by a program
        return f"{name} ({getattr(cls, '__module__', 'unknown place')})"
