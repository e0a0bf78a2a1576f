"""Requests are written as command lines, from which the same requests are read."""

import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest

import fairseq_posattn.cli
from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_options import STEPS, Prepare, Table
from fairseq_posattn.files.records import LIMIT
from fairseq_posattn.files.requests import (
    INTERPRETER,
    arguments,
    asked,
    command_of,
    declared,
    is_positional,
)
from fairseq_posattn.scoring.request import TOKENIZERS, ScoreRequest

LEAST = {  # a command line without options that may be left out
    "average": "run --out a.pt",
    "binarize-tagging": "--train a --valid b --destdir c",
    "check-mechanism": "mine.py",
    "examples": "data --path a.pt --sentences 0",
    "export": "ctranslate2 a.pt --out a",
    "extract": "a.conllu --out a",
    "heads": "data --path a.pt",
    "parse": "a --out a.conllu",
    "prepare": "--source a --target b --train c --out d",
    "probe": "",
    "probe-tasks": "a.conllu --out b",
    "project": "--words a --parents b --pieces c",
    "recipe evaluate": "toy",
    "recipe new": "mine --source a --target b --from c",
    "recipe options": "sequence demo data",
    "recipe prepare": "toy",
    "recipe sweep": "toy",
    "recipe table": "toy",
    "recipe train": "toy tree",
    "report": "a.json --out a.html",
    "score": "a --references b",
    "segment apply": "a --codes b --out c",
    "segment learn": "a --codes b",
    "sgm": "a --out b",
    "show": "window --out a.png",
    "tag": "a.pt",
    "train-parser": "a --lang b --out c",
    "translate": "a",
    "translations": "a b --out c",
    "trees": "a --out b",
}


def requests() -> dict[str, Any]:
    """Return the classes of all requests by the name of the subcommand."""
    names = [one.name for one in pkgutil.iter_modules(fairseq_posattn.cli.__path__)]
    modules = [import_module(f"fairseq_posattn.cli.{name}") for name in names]
    found = [*STEPS, *(one for module in modules for one in vars(module).values())]
    kinds = [one for one in found if is_dataclass(one) and hasattr(one, "command")]
    return {kind.command.removeprefix("posattn "): kind for kind in kinds}


def variants(request: Any) -> Iterator[Any]:
    """Yield copies of a request that differ in one option."""
    for one, hint in declared(type(request)):
        before = getattr(request, one.name)
        if one.metadata.get("either") and one.metadata.get("required") and not before:
            continue  # the other option is given
        for value in variants(before) if is_dataclass(hint) else values_of(one, hint):
            with suppress(InputError):  # it contradicts other options
                other = replace(request, **{one.name: value})
                if hasattr(other, "check_options"):
                    other.check_options()
                yield other


def values_of(one: Any, hint: Any) -> Sequence[Any]:
    unusual = {"layer": "mix", "sbatch": [("a", "b=c"), ("d", "")], "seeds": (1, 3, 7)}
    if "type" in one.metadata:
        return [unusual.get(one.name, Path("a b"))]
    is_list = get_origin(hint) is list
    texts = ["a b"] if is_list or is_positional(one) else ["-a", "--out", "", "a b"]
    values = {bool: [True], int: [3], float: [0.25, 1e-05], str: texts, Path: [Path("/a b")]}
    limit, kind = one.metadata.get(LIMIT), get_args(hint)[0] if is_list else hint
    choices = one.metadata.get("choices") or (limit.choices if limit else ())
    found, count = choices or values[kind], one.metadata.get("nargs")
    return [[value] * (count if type(count) is int else 2) for value in found] if is_list else found


@pytest.mark.parametrize(("name", "kind"), requests().items())
def test_the_words_of_a_request_are_read_as_the_same_request(name, kind):
    least = asked(kind, None, LEAST[name].split())
    assert sorted(arguments(least)) == sorted(LEAST[name].split())
    for request in variants(least):
        assert asked(kind, None, arguments(request)) == request


def test_the_tokenisers_are_those_of_sacrebleu():
    assert sorted(pytest.importorskip("sacrebleu.metrics").BLEU.TOKENIZERS) == [*TOKENIZERS]


def test_a_request_can_run_in_a_process_of_its_own(monkeypatch):
    request = ScoreRequest(hypotheses=["a", "b"], references=["c"], lowercase=True, name="-d")
    monkeypatch.delenv(INTERPRETER, raising=False)
    words = ["score", "a", "b", "--references", "c", "--name=-d", "--lowercase"]
    assert command_of(request) == [sys.executable, "-m", "fairseq_posattn", *words]
    monkeypatch.setenv(INTERPRETER, "python9")
    table = Table(recipe="toy", baseline=["a", "b"], rest=["--lr", "1"])
    words = ["recipe", "table", "toy", "--baseline", "a", "--baseline", "b", "--", "--lr", "1"]
    assert command_of(table) == ["python9", "-m", "fairseq_posattn", *words]
    assert command_of(Prepare(recipe="toy"))[3:] == ["recipe", "prepare", "toy"]
