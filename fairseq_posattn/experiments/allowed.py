"""Restrict what a recipe.toml may contain, so that running an untrusted recipe is safe.

Names become components of paths, so they must be plain. Options must not run code or write files
outside the folder of a run. fairseq evaluates the values of some options, such as adam-betas, as
Python expressions, so option values must not contain code. Some of fairseq's architectures evaluate
other options as well, so translation recipes can use only the architectures of this package.
"""

from __future__ import annotations

import ast
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import Limit, Misfit, field_value, is_of, limit
from fairseq_posattn.files.requests import NESTED, declared, default_of, flags_of, request_from

NAME = re.compile(r"(?!.*\.\.)[\w+][\w.+-]*")
PLAIN = "a plain name: letters, digits and . _ + -"
OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
NOT_TRAINING = (  # options that write to other folders, send data to a server, or run code
    *("user-dir", "post-save-script", "plasma-path", "use-plasma-view"),
    *("save-dir", "checkpoint-suffix", "tensorboard-logdir", "log-file"),
    *("aim-repo", "azureml-logging", "wandb-project", "distributed-init-method"),
)
NOT_TRANSLATION = (*NOT_TRAINING, "arch", "task")  # the last two are set by the engine
SPECIFICATIONS = (  # look like calls, but this package parses them without `eval`
    *("encoder-attention", "decoder-attention", "cross-attention"),
    *("encoder-positions", "decoder-positions"),
)
LONGEST = 10_000  # characters of a value
HARMLESS = (  # nodes of Python's syntax tree that occur in literals and plain words
    *(ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Div, ast.BitOr),
    *(ast.Name, ast.Attribute),
)
NOT_PREPARE = (
    *("out", "work", "source", "target", "train", "valid", "test"),
    *("treebank", "target-treebank", "target-comment", "align-by"),
    *("control", "control-seed", "flip", "download"),
    *("executor", "partition", "time", "setup", "sbatch"),
)
NOT_SCORE = ("hypotheses", "json", "train-counts")


def is_plain(name: object) -> bool:
    """Return whether a name can safely be used as a path component."""
    return isinstance(name, str) and bool(NAME.fullmatch(name))


def are_plain(names: Iterable[object]) -> bool:
    return all(map(is_plain, names))


def plain() -> Mapping[str, Any]:
    """Return field metadata that permits only a plain name or a collection of plain names."""
    return limit(lambda value: are_plain([value] if isinstance(value, str) else value), PLAIN)


def plain_or_empty() -> Mapping[str, Any]:
    """Return field metadata that permits only a plain name or an empty string."""
    return limit(lambda name: not name or is_plain(name), PLAIN)


def is_value(value: object) -> bool:
    """Return whether an option can have this TOML value; dates, for example, are not allowed."""
    if isinstance(value, dict):
        return all(map(is_value, value.values()))
    if isinstance(value, list):
        return all(map(is_value, value))
    return isinstance(value, (bool, int, float)) or is_of(str, value)


Value = Annotated[Any, Limit(is_value, "text, a number, true, false or a list")]
Options = dict[str, Value]  # names without dashes -> values
Request = TypeVar("Request")


def check_options(
    where: str, options: Options, refused: Sequence[str], request: Any = None
) -> None:
    """Raise an InputError if a recipe sets an option that is not allowed, or a value that would
    run code.

    where: key in recipe.toml, for the error message.
    refused: names of options that a recipe must not set.
    request: class of the requests that have these options (default: they are not checked further).
    """
    exact = {name for name, *_ in named(request)} if request else set()
    for name, value in options.items():
        written = name.replace("_", "-")
        if not OPTION.fullmatch(name):
            raise InputError(f"{where} has '{name}', but this is not the name of an option")
        # argparse accepts abbreviated options
        shortened = [] if written in exact else [o for o in refused if o.startswith(written)]
        if written in refused or shortened:
            raise InputError(
                f"{where}.{name} is not allowed in a recipe, because the recipe engine sets it, or "
                "because it controls where programs write or what code they run"
            )
        for text in map(str, value if isinstance(value, list) else [value]):
            code = written not in SPECIFICATIONS and is_code(text)
            if re.match(r"\s*-[^\d.]", text) or code:
                raise InputError(
                    f"{where}.{name} is '{text[:40]}', but only plain values are allowed, not "
                    "options or code; use a number or a word, such as 0.1 or adam"
                )
    if request:
        check_values(request, options, where)


def check_values(kind: Any, options: Mapping[str, Any], where: str) -> None:
    """Raise an InputError if an option of a request does not exist or has an invalid value."""
    known = {name: (one, hint) for name, _, one, hint in named(kind)}
    for name, value in options.items():
        if name not in known:
            raise InputError(f"{where}.{name} is not an option; see {kind.command} --help")
        one, hint = known[name]
        try:
            field_value(one, str if hint is Path else hint, value, f"{where}.{name}")
        except Misfit as misfit:
            raise InputError(str(misfit)) from None


def request_of(kind: type[Request], options: Mapping[str, Any]) -> Request:
    """Return the request with these options, which map names to values.

    A single value of an option that accepts several may be given without a list.
    """
    found, others = Namespace(), dict(options)
    for name, place, one, hint in named(kind):
        is_single = get_origin(hint) is list and not isinstance(others.get(name), list | None)
        value = others.pop(name, default_of(one))
        setattr(found, place, [value] if is_single else value)
    if others:  # options of recipe.toml were checked before
        name, command = next(iter(others)), kind.command  # type: ignore[attr-defined]
        raise InputError(f"{command} has no option --{name}; correct it in corpus.py")
    return request_from(kind, found)


def named(kind: Any, prefix: str = "") -> Iterator[tuple[str, str, Field[Any], Any]]:
    """Yield the name of each option of a request, its place in the request, field and type."""
    for one, hint in declared(kind):
        place = prefix + one.name
        if NESTED in one.metadata:
            yield from named(hint, f"{place}.")
        else:
            yield flags_of(one)[0].removeprefix("--"), place, one, hint


def is_code(text: str) -> bool:
    """Return whether evaluating a text as Python would do more than create a literal.

    Paths are considered harmless; Python parses them as names and divisions.
    """
    if len(text) > LONGEST:
        return True
    try:
        parts = ast.walk(ast.parse(text.strip(), mode="eval"))
        return not all(isinstance(part, HARMLESS) for part in parts)
    except (SyntaxError, ValueError):
        return False  # it cannot be evaluated
    except (RecursionError, MemoryError):
        return True
