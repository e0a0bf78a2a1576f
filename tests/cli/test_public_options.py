"""The options of all commands are a public interface: none changes unnoticed.

If a change is meant, CHANGELOG.md gets a line, and `NEW_OPTIONS=1 pytest FILE` writes the new list.
"""

import argparse
import json
import os
import pkgutil
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest

import fairseq_posattn.cli

LIST = Path(__file__).with_name("public_options.json")
COMMANDS = sorted(
    module.name
    for module in pkgutil.iter_modules(fairseq_posattn.cli.__path__)
    # the options of two of these are mostly fairseq's
    if module.name not in ("fairseq_programs", "binarize", "main")
)


class Complete(Exception):
    """Ends a command when its parser is complete, which it carries."""


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command, as it is when the command reads its arguments."""

    def stop(parser, *_, **__):
        raise Complete(parser)

    patched = mock.patch.object(argparse.ArgumentParser, "parse_args", stop)
    with patched, pytest.raises(Complete) as ended:
        import_module(f"fairseq_posattn.cli.{command}").main()
    return ended.value.args[0]


def described(parser: argparse.ArgumentParser) -> dict:
    """Return what users may rely on: names, defaults, choices, and what must be given."""
    found = {}
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            found |= {name: described(one) for name, one in action.choices.items()}
        elif not isinstance(action, argparse._HelpAction):
            name = " ".join(action.option_strings) or action.dest
            assert action.help, f"{name} has no help text"
            found[name] = {
                "default": None if action.default is None else str(action.default),
                "choices": action.choices and [str(choice) for choice in action.choices],
                "required": action.required,
                "nargs": action.nargs,
                "type": getattr(action.type, "__name__", None),
            }
    return found


def test_options_and_commands_are_those_that_users_know():
    found = {command: described(parser_of(command)) for command in COMMANDS}
    if os.environ.get("NEW_OPTIONS"):
        LIST.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(LIST.read_text())
