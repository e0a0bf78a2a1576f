"""Make parsers of command lines, and read the values of options with errors that say what fits.

Options that several commands share are added here, too.
"""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Collection, Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from fairseq_posattn.io.visible import visible


class Parser(ArgumentParser):
    """A parser whose errors are one line of visible characters, whatever was given."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def command_parser(name: str, description: str | None) -> ArgumentParser:
    """Return a parser whose help names the installed command, however it was started."""
    return Parser(prog=name, description=description, formatter_class=RawDescriptionHelpFormatter)


def add_model_options(parser: ArgumentParser) -> None:
    """Add the options that every command with a trained model has: --user-dir and --cpu."""
    parser.add_argument(
        "--user-dir", metavar="FOLDER", help="import classes of your own that the model has"
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")


def option(
    help: str, default: Any = MISSING, group: str = "", metavar: str | None = None, **more: Any
) -> Any:
    """Return the field of a dataclass that `add_fields` makes an option of a command line.

    A field without a default is an argument without a name. A list takes several values, and a bool
    is a flag. group: the heading under which the help shows it. more: what else argparse is told.
    """
    metadata = {"group": group, "help": help, "metavar": metavar, **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def add_fields(
    parser: ArgumentParser,
    kind: Any,
    either: Collection[str] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Add the options that a dataclass describes, by those of its fields that `option` made.

    either: of these fields one must be given. short: letters of fields, such as -t.
    """
    groups: dict[str, Any] = {"": parser}
    one_of = parser.add_mutually_exclusive_group(required=True) if either else parser
    for one in fields(kind):
        if not one.metadata:
            continue
        more = dict(one.metadata)
        group = more.pop("group")
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        add = (one_of if one.name in either else groups[group]).add_argument
        if "list" in str(one.type):
            more["nargs"] = "+"
        if one.default is MISSING and one.default_factory is MISSING:
            add(one.name, **more)
            continue
        if str(one.type) == "bool":
            more = {"action": "store_true", "help": more["help"]}
        names = [f"--{one.name.replace('_', '-')}", *filter(None, [short.get(one.name)])]
        default = one.default if one.default_factory is MISSING else one.default_factory()
        add(*names, default=default, **more)


def new_folder(text: str) -> Path:
    """Read a path that goes on to other commands, where none may take it for an option."""
    return Path(text).absolute() if text.startswith("-") else Path(text)


def positive(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a number above 0, found '{text}'")
    return int(text)


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"expected a number from 0 to 1, found '{text}'")
    return number


def not_negative(text: str) -> int:
    """Read a whole number that is 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a number that is not negative, found '{text}'")
    return int(text)
