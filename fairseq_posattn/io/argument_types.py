"""Make parsers of command lines, and read the values of options with errors that say what fits.

Options that several commands share are added here, too.
"""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from pathlib import Path
from typing import NoReturn

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
