"""Let the parsers of programs read the command lines that stand in the documents."""

import re
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest import mock

from fairseq_posattn.cli import recipe
from fairseq_posattn.cli.main import FAIRSEQ as FAIRSEQS
from fairseq_posattn.cli.main import function_of, subcommands
from support.commands import ROOT, script

# Programs of others, and words of the shell.
OTHERS = {"pip", "torchrun", "srun", "sbatch", "mkdir", "head", "tee", "export", "python"}
OTHERS |= {"git", "for", "do", "done", "cd", "pre-commit", "."}
FAIRSEQ = re.compile(
    r"(?:(?:fairseq-|fairseq_cli\.)(?=(train|generate|interactive|validate|preprocess)$)"
    r"|fairseq-(?=eval-lm|hydra-train))"
)
SUBSTITUTED = r"\$\(([^()]*)\)"
PRINTED = {"posattn recipe options": "--arch posattn_transformer"}  # the begin of what it prints
DOORS = ("prepare", "train", "evaluate", "table", "sweep", "new")  # one for each step of a recipe
PREPARATION = ["posattn", "prepare", "--source=a", "--target=b", "--train=c", "--out=d"]
TRAINING = ["posattn", "train", "data", "--arch=posattn_transformer"]
OWN_PREPARATION = {  # what follows -- in prepare.sh of these recipes
    "lm": ["recipes/lm/prepare.py", "--corpus=ptb", "--data=a", "--out=b"],
    "ud_tagging": ["posattn", "binarize-tagging", "--train=a", "--valid=b", "--destdir=c"],
}


class Parsed(BaseException):
    """Ends a program as soon as its options are read; programs catch every Exception."""


def simple_commands(code: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a shell script, without redirections. A variable
    has the value that was given to it, or is `1`, which is a number as well as a name. The sign `…`
    stands for more options."""
    values: dict[str, str] = {}
    for line in code.replace("\\\n", " ").splitlines():
        for inner in re.findall(SUBSTITUTED, line):
            yield from simple_commands(inner)
        line = re.sub(SUBSTITUTED, lambda inner: PRINTED.get(inner[1][:22], "…"), line)
        words: list[str] = []
        tokens = iter(tokens_of(line))
        for token in tokens:
            if set(token) <= set("<>"):
                next(tokens)
            elif set(token) <= set("();|&"):
                yield words
                words = []
            elif not words and (assigned := re.fullmatch(r"(\w+)=(.*)", token)):
                values[assigned[1]] = assigned[2]
            elif token != "…":
                words += expanded(token, values)
        yield words


def tokens_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def expanded(token: str, values: dict[str, str]) -> list[str]:
    if match := re.fullmatch(r"\$(\w+)", token):
        return values.get(match[1], "1").split()
    return [re.sub(r"\$(\w+)", lambda found: values.get(found[1], "1"), token)]


def check(words: list[str]) -> None:
    """Raise an AssertionError unless the program of a command takes its options."""
    for k, word in enumerate(words):
        if word == "posattn" and len(words) > k + 1:
            return parsed_by_subcommand(*words[k + 1 :])
        if prefix := FAIRSEQ.match(word):
            return parsed_by_fairseq(word[prefix.end() :], words[k + 1 :])
        if word.startswith(("recipes/", "tests/", "preprocess/", ".ci/")):
            return parsed_by_file(ROOT / word, words[k + 1 :])
        if word.startswith("tests.") and words[k - 1] == "-m":
            module = import_module(word)
            if hasattr(module, "__path__"):
                module = import_module(f"{word}.__main__")
            return parsed(module.main, words[k + 1 :])
    assert not words or words[0] in OTHERS, f"no program is known that is called {words[0]}"


def parsed_by_subcommand(name: str, *arguments: str) -> None:
    if name in FAIRSEQS:
        return parsed_by_fairseq(name, list(arguments))
    assert name.startswith("--") or name in subcommands(), f"posattn has no subcommand {name}"
    if not name.startswith("--"):
        parsed(function_of(name), list(arguments))


def parsed_by_fairseq(name: str, arguments: list[str]) -> None:
    if name != "hydra-train":
        program = import_module(f"fairseq_cli.{name.replace('-', '_')}")
        parsed(program.cli_main, arguments)


def parsed(main, arguments: list[str]) -> None:
    """Call a program that ends when its parser has read the arguments. A folder of --user-dir is
    the reader's own."""
    read = ArgumentParser.parse_args

    def parse_args(self, *given, **named):
        read(self, *given, **named)
        raise Parsed

    def error(self, message: str):
        raise AssertionError(f"{' '.join(arguments)}: {message}")

    with (
        mock.patch.object(ArgumentParser, "parse_args", parse_args),
        mock.patch.object(ArgumentParser, "error", error),
        mock.patch("fairseq.utils.import_user_module"),
        mock.patch.object(sys, "argv", ["program", *arguments]),
    ):
        try:
            main()
        except Parsed:
            return
    raise AssertionError(f"{main}: read no options")


def parsed_by_file(path: Path, arguments: list[str]) -> None:
    """Let a program of the checkout read its arguments."""
    assert path.is_file(), f"{path}: no such file"
    if path.suffix == ".py":
        with mock.patch.object(sys, "path", [str(path.parent), *sys.path]):
            parsed(script(path).main, arguments)
        return
    if path.suffix == ".sbatch":
        path = ROOT / "recipes/train.sh"
    own, dashes, following = split_at_dashes(arguments)
    if path.stem in DOORS and path.parent == ROOT / "recipes":
        parsed(recipe.main, [path.stem, *own])
    else:
        check_script(path, own)
    if dashes:
        preparation = OWN_PREPARATION.get(own[0], PREPARATION)
        check([*(preparation if path.name == "prepare.sh" else TRAINING), *following])


def split_at_dashes(arguments: list[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in arguments:
        return arguments, False, []
    k = arguments.index("--")
    return arguments[:k], True, arguments[k + 1 :]


def check_script(path: Path, arguments: list[str]) -> None:
    """The comment at the head of a script is its --help; each option must stand there."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    count = next(k for k, line in enumerate(lines) if not line.startswith("#"))
    known = set(re.findall(r"--[a-z-]+", "\n".join(lines[:count])))
    for argument in arguments:
        if argument.startswith("--"):
            assert argument in known, f"{path}: no option {argument}; there are: {sorted(known)}"
