"""Every public docstring and every help text of the package is a sentence: see support.language."""

import argparse
import ast
import contextlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest

import fairseq_posattn.cli
from support.commands import PLUGIN
from support.language import IMPERATIVE, LIST, VERB, WORDS, Text, room

FAIRSEQ = {"fairseq_programs"}  # fairseq makes the parsers of these commands


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the syntax tree of each file of the package."""
    for path in sorted(PLUGIN.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def docstrings(path: Path, node: ast.AST, owner: str) -> Iterator[Text]:
    """Yield the docstrings of a module, of its public classes and functions, and of methods."""
    text = ast.get_docstring(node)
    if text is not None:
        is_function = isinstance(node, ast.FunctionDef)
        yield Text(path, getattr(node, "lineno", 1), owner, text, is_function)
    for part in node.body if isinstance(node, ast.Module | ast.ClassDef) else []:
        if isinstance(part, ast.ClassDef | ast.FunctionDef) and part.name[0] != "_":
            yield from docstrings(path, part, part.name)


def fields(path: Path, tree: ast.Module) -> Iterator[Text]:
    """Yield the help texts of dataclasses; each option of fairseq's dataclasses must have one."""
    for part in (part for part in ast.walk(tree) if isinstance(part, ast.ClassDef)):
        of_fairseq = any(re.search("(Config|Dataclass)$", ast.unparse(base)) for base in part.bases)
        for line in part.body:
            if not isinstance(line, ast.AnnAssign) or refers_to_another(line):
                continue
            if of_fairseq or help_of(line):
                name = f"{part.name}.{ast.unparse(line.target)}"
                yield Text(path, line.lineno, name, text_of(help_of(line)))


def refers_to_another(field: ast.AnnAssign) -> bool:
    """Return whether a field takes the value of another option, which has the help text."""
    calls = [part for part in ast.walk(field) if isinstance(part, ast.Call)]
    return any(ast.unparse(call.func) == "II" for call in calls)


def help_of(node: ast.AST) -> ast.expr | None:
    """Return the help text in the metadata of a dataclass's field."""
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "help":
                    return value
    return None


def text_of(node: ast.expr | None) -> str:
    """Return a text of the source, with … in the places of an f-string that are computed."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) else "" if node is None else "…"


class ParserMade(Exception):
    """This error ends a command when its parser is complete."""


@cache
def options() -> list[Text]:
    """Return the help texts of all options that the package adds to the parsers of its commands."""
    found: list[Text] = []
    container, subparsers = argparse._ActionsContainer, argparse._SubParsersAction
    with contextlib.ExitStack() as patched:
        for kind, name in [(container, "add_argument"), (subparsers, "add_parser")]:
            recorded = recording(getattr(kind, name), found)
            patched.enter_context(mock.patch.object(kind, name, recorded))
        ended = mock.Mock(side_effect=ParserMade)
        patched.enter_context(mock.patch.object(argparse.ArgumentParser, "parse_args", ended))
        for module in pkgutil.iter_modules(fairseq_posattn.cli.__path__):
            if module.name not in FAIRSEQ:
                with pytest.raises(ParserMade):
                    import_module(f"fairseq_posattn.cli.{module.name}").main()
    return found


def recording(method, found: list[Text]):
    """Return a method of argparse that records the help texts that the package passes."""

    def recorded(self, *names, **options):
        caller = sys._getframe(1)
        path = Path(caller.f_code.co_filename)
        if path.is_relative_to(PLUGIN):
            found.append(Text(path, caller.f_lineno, " ".join(names), options.get("help") or ""))
        return method(self, *names, **options)

    return recorded


@cache
def texts() -> list[Text]:
    """Return all docstrings and help texts of the package."""
    found = [text for path, tree in trees() for text in docstrings(path, tree, path.stem)]
    found += [text for path, tree in trees() for text in fields(path, tree)]
    return found + options()


@pytest.mark.parametrize("name", sorted({room(path) for path in PLUGIN.rglob("*.py")}))
def test_docstrings_and_help_texts_are_sentences(name):
    faults = {fault for text in texts() if text.room() == name for fault in text.faults()}
    assert not faults, "\n".join([*sorted(faults), f"({LIST.name} lists the verbs; add others)"])


@pytest.mark.parametrize(
    ("text", "imperative", "fault"),
    [
        ("Return the words of a line.", True, None),
        ("The words of a line, in order.", True, IMPERATIVE),
        ("By the first lines, up to one that is no comment.", True, IMPERATIVE),
        ("Segment one text.", True, WORDS),
        ("A segmenter splits a line into pieces.", False, None),
        ("Tree providers find the trees of new lines.", False, None),
        ("This class counts what a treebank holds.", False, None),
        ("The model turns tokens into features.", False, None),
        ("Runs the stock encoder with other positions.", False, None),
        ("The scores of a sentence, as numbers.", False, VERB),
        ("The trees of a batch in one padded array.", False, VERB),
        ("The trees of a batch. They are padded.", False, VERB),
        ("slurm: each worker gets this memory (default: %(default)s)", False, None),
        ("if a tree has several roots, stop with an error (default)", False, None),
        ("how many shards at once (default: one, which is slow)", False, VERB),
        ("read it (default: the text that comes from stdin)", False, WORDS),
        ("", False, f"{WORDS}; {VERB}"),
    ],
)
def test_the_rules(text, imperative, fault):
    found = list(Text(PLUGIN / "io/files.py", 7, "name", text, imperative).faults())
    place = "fairseq_posattn/io/files.py:7: name: "
    assert found == ([f"{place}{text!r}: {fault}"] if fault else [])


def test_texts_of_all_kinds_are_found():
    """The test above would pass if it found none."""
    found = {(text.room(), text.owner) for text in texts()}
    for owner in ["--source", "--executor", "apply", "--words-from-train", "--overwrite", "--json"]:
        assert any(owner in name.split() for _, name in found), owner
    for owner in ["StructuredTranslationConfig.print_tree", "TaggingConfig.data"]:
        assert ("glue", owner) in found
    for owner in ["files", "PackingError", "read_lines"]:
        assert ("io", owner) in found
