"""This registry holds the classes of inputs, by name, from all modules `classes_*.py`."""

from __future__ import annotations

import contextlib
import io
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from support.commands import ROOT, script

from .mutations import Mutation


class Command(NamedTuple):
    """What a program's entry point is given; stdin: the name of a file."""

    main: Callable[[], None]
    arguments: Sequence[object] = ()
    stdin: Path | None = None


@dataclass(frozen=True)
class InputClass:
    """A kind of input, and a command that reads it. See the package's docstring."""

    name: str
    build: Callable[[Path], None]
    command: Callable[[Path], Command]
    damaged: str
    mutations: Sequence[Mutation]
    outputs: str = ""
    left: str = ""
    also_named: str = ""
    result: Callable[[Path], Any] | None = None
    share: float = 1.0


CLASSES: dict[str, InputClass] = {}


def calling(function: Callable[[Path], object]) -> Callable[[Path], Command]:
    """Return a command that only calls a function of the folder."""
    return lambda folder: Command(lambda: function(folder))


def made_once(build: Callable[[Path], object]) -> Callable[[], Path]:
    """Return a function that fills a temporary folder when first called, and returns its path."""

    @cache
    def made() -> TemporaryDirectory:
        folder = TemporaryDirectory(prefix="fuzz-")
        with contextlib.redirect_stdout(io.StringIO()):
            build(Path(folder.name))
        return folder

    return lambda: Path(made().name)


def content(name: str) -> Callable[[Path], bytes]:
    """Return a function that reads a file of a folder."""
    return lambda folder: (folder / name).read_bytes()


def add(name: str, build, damaged: str, mutations, outputs: str = "", **options):
    """Add a class, by decorating the function that gives the command on a folder."""

    def decorate(command):
        if name in CLASSES:
            raise ValueError(f"two classes are called {name}")
        CLASSES[name] = InputClass(name, build, command, damaged, mutations, outputs, **options)
        return command

    return decorate


@cache
def all_classes() -> dict[str, InputClass]:
    """Every class, after its module was imported."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("classes_"):
            import_module(f"{__package__}.{module.name}")
    return CLASSES


def inputs_of(classes: dict[str, InputClass], total: int) -> dict[str, int]:
    """How many of all inputs each class gets: at least one."""
    shares = sum(kind.share for kind in classes.values())
    return {name: max(1, round(total * kind.share / shares)) for name, kind in classes.items()}


@cache
def program(path: str) -> Callable[[], None]:
    """Return the function `main` of a command, or of a program, by its path from the root."""
    if "/" not in path:
        return import_module(f"fairseq_posattn.cli.{path}").main
    return script(ROOT / path).main
