"""Read the options of a subcommand into a dataclass (a request), and write a request as options.

    @dataclass(frozen=True, kw_only=True)
    class AverageRequest:
        command: ClassVar = "posattn average"
        run: str = option("folder with the checkpoints")
        last: int = option("number of checkpoints (default: %(default)s)", 5, at_least(1))

    request = asked(AverageRequest, "Average checkpoints.")  # from sys.argv
    command_of(AverageRequest(run="run"))  # python -m fairseq_posattn average run

A field without a default is a positional argument, unless `required=True`. A bool is a flag, and a
list accepts several values. Further keywords of `option`:

- those of `add_argument`: `metavar`, `nargs`, `action="append"`, and `type` to convert an unusual
  notation; `write` is then the inverse of `type`
- `flag`: the name of the option if it differs from that of the field, or a tuple of names
- `group`: the heading under which the help text lists this option and the following ones
- `positional`: whether the field is an optional positional argument
- `either`: at most one of the options with the same value may be given (exactly one, if they are
  `required`)

The fields of a nested dataclass, which `options_of` adds, are options as well.
"""

import os
import re
import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import one_line
from fairseq_posattn.files.numbers import decimal_number, plain_number
from fairseq_posattn.files.records import HELP, KEY, KINDS, LIMIT, Limit, without_none
from fairseq_posattn.files.terminal import visible

Request = TypeVar("Request")
Words = Sequence[str] | None
TOO_LARGE = 10**18
GROUP, NESTED = "group", "nested"
OWN = (GROUP, "flag", "positional", "either", "write", KEY, LIMIT)
INTERPRETER = "POSATTN_PYTHON"  # recipes/common.sh sets it
LIMITS = {  # name and description of the values on a command line, by their description in JSON
    "at least 0": ("not_negative", "a number that is not negative"),
    "at least 1": ("positive", "a number above 0"),
}
METAVARS: dict[Any, str] = {int: "N", float: "X", Path: "PATH"}


@cache
def reader(kind: type, limit: Limit) -> Callable[[str], Any]:
    """Return a function that converts text to an int or float within a limit."""
    number: Callable[[str], float | None] = plain_number if kind is int else decimal_number
    name, wanted = LIMITS.get(limit.expected, (limit.expected, limit.expected))

    def read(text: str) -> Any:
        value = number(text)
        if value is None or (kind is int and abs(value) >= TOO_LARGE) or not limit.admits(value):
            raise ArgumentTypeError(f"expected {wanted}, found '{text}'")
        return value

    read.__name__ = name
    METAVARS[read] = METAVARS[kind]
    return read


def new_folder(text: str) -> Path:
    """Convert text to a path; if it starts with `-` like an option, make the path absolute."""
    return Path(text).absolute() if text.startswith("-") else Path(text)


METAVARS[new_folder] = "PATH"


class UsageError(InputError):
    """Raised by a request whose options are incomplete; `asked` then prints the usage."""


class Parser(ArgumentParser):
    """An argument parser that prints each error as one line, with control characters escaped."""

    def __init__(self, **how: Any):
        super().__init__(**{"formatter_class": Help, **how})
        self.is_intermixed = False
        for kind in (int, float):  # replace int() and float() for type=int and type=float
            self.register("type", kind, reader(kind, Limit(lambda _: True, KINDS[kind])))

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, one_line(f"{self.prog}: error: {visible(message)}") + "\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Accept an optional positional argument also after options."""
        if self.is_intermixed or not any(a.nargs == "?" for a in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        self.is_intermixed = True  # the method below calls this one
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.is_intermixed = False

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
        return METAVARS.get(action.type) or re.split("[._]", action.dest)[-1].upper()

    def _get_default_metavar_for_positional(self, action: Action) -> str:
        return action.dest.upper()


def options_of(kind: Any, group: str = "") -> Any:
    """Return a field for a nested dataclass, whose options are listed under this heading."""
    return field(default_factory=kind, metadata={NESTED: True, **({GROUP: group} if group else {})})


def declared(kind: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yield each field of a request that is an option or has options, with its type."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        if HELP in one.metadata or NESTED in one.metadata:
            yield one, without_none(hints[one.name]) or hints[one.name]


def default_of(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def is_positional(one: Field[Any]) -> bool:
    required = one.metadata.get("required", False)
    return bool(one.metadata.get("positional", default_of(one) is MISSING and not required))


def flags_of(one: Field[Any]) -> list[str]:
    flags = one.metadata.get("flag", f"--{one.name.replace('_', '-')}")
    return [flags] if isinstance(flags, str) else [*flags]


def add_options(parser: Any, kind: Any, prefix: str = "") -> None:
    """Add one option to a parser or argument group for each field that `option` created."""
    groups: dict[str, Any] = {"": parser}
    group = ""
    for one, hint in declared(kind):
        group = one.metadata.get(GROUP, group)
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        if NESTED in one.metadata:
            add_options(groups[group], hint, f"{prefix}{one.name}.")
            continue
        add, how = groups[group].add_argument, how_to_parse(one, hint)
        if either := one.metadata.get("either"):
            if either not in groups:
                required = how.pop("required", False)
                groups[either] = parser.add_mutually_exclusive_group(required=required)
            add = groups[either].add_argument
            how.pop("required", None)
        if is_positional(one):
            add(one.name, **how)
        else:
            add(*flags_of(one), dest=prefix + one.name, **how)


def how_to_parse(one: Field[Any], hint: Any) -> dict[str, Any]:
    """Return the keywords of `add_argument` for an option."""
    how = {key: value for key, value in one.metadata.items() if key not in OWN}
    limit, default = one.metadata.get(LIMIT), default_of(one)
    is_list = get_origin(hint) is list
    kind = get_args(hint)[0] if is_list else hint
    if kind is bool:
        return {"action": "store_const", "const": True, "default": default, HELP: how[HELP]}
    if is_positional(one):
        if default is not MISSING:
            how["nargs"] = "*" if is_list else "?"
    elif default is not MISSING:
        how["default"] = default
    if is_list and how.get("action") != "append":
        how.setdefault("nargs", "+")
    if limit and limit.choices:
        how.setdefault("choices", limit.choices)
    elif kind in METAVARS:
        how.setdefault("type", reader(kind, limit) if limit else kind)
    return how


def request_from(kind: type[Request], options: Namespace, prefix: str = "") -> Request:
    """Return the request, given the parsed values of options that `add_options` added."""
    return kind(
        **{
            one.name: request_from(hint, options, f"{prefix}{one.name}.")
            if NESTED in one.metadata
            else getattr(options, prefix + one.name)
            for one, hint in declared(kind)
        }
    )


def asked(kind: type[Request], description: str | None, words: Words = None) -> Request:
    """Parse the command line (or `words`), and return the request.

    The method `check_options` of the request, if any, raises an InputError if options contradict
    each other. The constructor does not call it, because recipes build incomplete requests.
    """
    parser = Parser(prog=kind.command, description=description)  # type: ignore[attr-defined]
    add_options(parser, kind)
    options = parser.parse_args(words)
    try:
        request = request_from(kind, options)
        if hasattr(request, "check_options"):
            request.check_options()
        return request
    except UsageError as error:
        parser.error(str(error))


def asked_step(
    kinds: Sequence[Any], description: str | None, words: Words = None, rest: Sequence[str] = ()
) -> Any:
    """Parse the command line of a subcommand with steps; return the request of the chosen step.

    The name of a step is the last word of its request's `command`, and its docstring the help text.

    rest: words after `--`, which become the field `rest`.
    """
    parser = Parser(prog=kinds[0].command.rpartition(" ")[0], description=description)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for kind in kinds:
        about = " ".join(str(kind.__doc__).split())
        what = about[0].lower() + about.partition(";")[0].rstrip(".")[1:]
        step = steps.add_parser(kind.command.split()[-1], help=what, description=about)
        add_options(step, kind)
        step.set_defaults(kind=kind)
    options = parser.parse_args(words)
    request = request_from(options.kind, options)
    if not rest:
        return request
    if not hasattr(request, "rest"):
        parser.error(f"nothing may follow --, found {' '.join(rest)}")
    return replace(request, rest=rest)


def arguments(request: Any) -> list[str]:
    """Return the command-line words of a request; default values are omitted."""
    positional: list[str] = []
    others: list[str] = []
    for one, _ in declared(type(request)):
        value, write = getattr(request, one.name), one.metadata.get("write", str)
        if NESTED in one.metadata:
            others += arguments(value)
        elif value is not None and value != default_of(one):
            words = [write(part) for part in (value if type(value) is list else [value])]
            positional += words if is_positional(one) else []
            others += [] if is_positional(one) else with_flag(one, value, words)
    return [*positional, *others]


def with_flag(one: Field[Any], value: Any, words: list[str]) -> list[str]:
    flag = max(flags_of(one), key=len)
    if value is True:
        return [flag]
    if len(words) > 1 and one.metadata.get("action") != "append":
        return [flag, *words]
    pairs = [[f"{flag}={word}"] if word.startswith("-") else [flag, word] for word in words]
    return [word for pair in pairs for word in pair]


def command_of(request: Any) -> list[str]:
    """Return the command that runs a request in a process of its own.

    The interpreter is specified by the environment variable POSATTN_PYTHON. If it is not set, the
    current interpreter is used.
    """
    subcommand = request.command.split()[1:]
    python = os.environ.get(INTERPRETER, sys.executable)
    rest = ["--", *request.rest] if getattr(request, "rest", ()) else []
    return [python, "-m", "fairseq_posattn", *subcommand, *arguments(request), *rest]
