"""Build the argument parsers of all commands, and convert and validate option values.

Options that several commands share are also defined here.
"""

import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from fairseq_posattn.io.command_line import one_line
from fairseq_posattn.io.numbers import decimal_number, plain_number
from fairseq_posattn.io.records import KEY, LIMIT
from fairseq_posattn.io.visible import visible

Kind = TypeVar("Kind")
TYPES = {"int": int, "float": float, "Path": Path}  # str is argparse's default
TOO_LARGE = 10**18


class Parser(ArgumentParser):
    """An argument parser that prints each error as one line, with control characters escaped."""

    def __init__(self, **how: Any):
        super().__init__(**{"formatter_class": Help, **how})
        self.register("type", int, whole)  # replace int() and float() for type=int and type=float
        self.register("type", float, decimal)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, one_line(f"{self.prog}: error: {visible(message)}") + "\n")

    def _get_values(self, action: Action, arg_strings: list[str]) -> Any:
        if action.option_strings and arg_strings == ["--"]:  # argparse would parse --name=-- as []
            raise ArgumentError(action, "expected a value, found '--'")
        return super()._get_values(action, arg_strings)


class Help(RawDescriptionHelpFormatter):
    """A help formatter with short placeholders for option values.

    The placeholder is N for integers, X for other numbers, PATH for paths, and otherwise the last
    word of the option's name.
    """

    def _get_default_metavar_for_optional(self, action: Action) -> str:
        return METAVARS.get(action.type) or action.dest.rpartition("_")[2].upper()

    def _get_default_metavar_for_positional(self, action: Action) -> str:
        return action.dest.upper()


def command_parser(name: str, description: str | None) -> ArgumentParser:
    """Return a parser whose usage line begins with `name`, such as `posattn parse`."""
    return Parser(prog=name, description=description)


def add_model_options(parser: ArgumentParser) -> None:
    """Add --user-dir and --cpu, which all commands that load a trained model accept."""
    parser.add_argument(
        "--user-dir",
        metavar="FOLDER",
        help="import this file, folder or module with custom classes that the model uses",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if there is a GPU")


def option(
    help: str, default: Any = MISSING, group: str = "", metavar: Any = None, **more: Any
) -> Any:
    """Return a dataclass field that `add_fields` turns into a command-line option.

    A field without a default becomes a positional argument, unless `required=True`. A list accepts
    several values; a bool becomes a flag.

    group: the heading under which the help text lists the option.
    more: further arguments of `add_argument`. In addition, `flag` sets the name of the option, and
        `key` the name of the field in a JSON document, if they differ from the name of the field.
    """
    metadata = {"group": group, "help": help, "metavar": metavar, **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def add_fields(
    parser: Any,
    kind: Any,
    either: Collection[str] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Add one option to a parser or argument group for each field that `option` created.

    either: fields of which the user must set exactly one.
    short: short flags by field name, such as -t.
    """
    groups: dict[str, Any] = {"": parser}
    one_of = parser.add_mutually_exclusive_group(required=True) if either else parser
    for one in fields(kind):
        if "group" not in one.metadata:  # not made by `option`
            continue
        more = {key: value for key, value in one.metadata.items() if key not in (LIMIT, KEY)}
        group, flag = more.pop("group"), more.pop("flag", f"--{one.name.replace('_', '-')}")
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        add = (one_of if one.name in either else groups[group]).add_argument
        of = str(one.type).removesuffix(" | None")
        if of.startswith("list["):
            more["nargs"], of = more.get("nargs", "+"), of[5:-1]
        if of in TYPES:
            more.setdefault("type", TYPES[of])
        if of == "bool":
            more = {"action": "store_true", "help": more["help"]}
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if default is not MISSING:
            more["default"] = default
        elif not more.get("required"):
            add(one.name, **more)
            continue
        add(flag, *filter(None, [short.get(one.name)]), dest=one.name, **more)


def chosen(kind: type[Kind], options: Namespace, **others: Any) -> Kind:
    """Return an instance of the dataclass with the parsed values of its options.

    others: values for fields that are not options, or values that override parsed ones.
    """
    names = [one.name for one in fields(kind) if "group" in one.metadata]  # type: ignore[arg-type]
    return kind(**{**{name: getattr(options, name) for name in names}, **others})


def asked(
    kind: type[Kind], name: str, description: str | None, words: Sequence[str] | None = None
) -> Kind:
    """Parse the command line (or `words`), and return the options as a dataclass instance."""
    parser = command_parser(name, description)
    add_fields(parser, kind)
    return chosen(kind, parser.parse_args(words))


def new_folder(text: str) -> Path:
    """Convert text to a path; if it starts with `-` like an option, make the path absolute."""
    return Path(text).absolute() if text.startswith("-") else Path(text)


def plain_whole(text: str, least: int, wanted: str) -> int:
    number = plain_number(text)
    if number is None or not least <= number < TOO_LARGE:
        raise ArgumentTypeError(f"expected {wanted}, found '{text}'")
    return number


def whole(text: str) -> int:
    """Convert text to an integer."""
    return plain_whole(text, -TOO_LARGE, "a whole number")


def positive(text: str) -> int:
    """Convert text to an integer greater than 0."""
    return plain_whole(text, 1, "a number above 0")


def not_negative(text: str) -> int:
    """Convert text to an integer that is 0 or greater."""
    return plain_whole(text, 0, "a number that is not negative")


def decimal(text: str) -> float:
    """Convert text to a finite float."""
    if (number := decimal_number(text)) is None:
        raise ArgumentTypeError(f"expected a number, found '{text}'")
    return number


def between(least: float, most: float) -> Callable[[str], Any]:
    """Return a converter for numbers from `least` to `most`; if both are int, so is the result."""
    is_whole = isinstance(least, int)
    reader: Callable[[str], float | None] = plain_number if is_whole else decimal_number
    wanted, form = ("a whole number", ",") if is_whole else ("a number", ",g")
    limits = f"{wanted} from {least:{form}} to {most:{form}}"

    def read(text: str) -> Any:
        if (number := reader(text)) is not None and least <= number <= most:
            return number
        raise ArgumentTypeError(f"expected {limits}, found '{text}'")

    read.__name__ = limits
    METAVARS[read] = "N" if is_whole else "X"
    return read


METAVARS: dict[Any, str] = {
    **dict.fromkeys((int, positive, not_negative), "N"),
    float: "X",
    **dict.fromkeys((Path, new_folder), "PATH"),
}
share = between(0.0, 1.0)
few = between(1, 1024)  # processes or folders: a mistyped number could overload the machine
samples = between(1, 1_000_000)  # of a bootstrap or permutation test
