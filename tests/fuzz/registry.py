"""This registry holds the classes of inputs, by name, from all modules `classes_*.py`."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from .runner import InputClass

ROOT = Path(__file__).parent.parent.parent
CLASSES: dict[str, InputClass] = {}


def add(kind: InputClass) -> None:
    if kind.name in CLASSES:
        raise ValueError(f"two classes are called {kind.name}")
    CLASSES[kind.name] = kind


@cache
def all_classes() -> dict[str, InputClass]:
    """Every class, after its module was imported."""
    tests = str(Path(__file__).parent.parent)
    if tests not in sys.path:  # commands, raw_corpus and what else the tests share
        sys.path.insert(0, tests)
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
    from support.commands import script

    return script(ROOT / path).main
