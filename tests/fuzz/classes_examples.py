"""posattn examples: references and trees of sentences; the model is loaded once for all inputs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest import mock

from support.files import write

from .corpora import TARGET, WORDS, conllu, translation_model
from .mutations import COLUMNS, LINES
from .registry import Command, add


@cache
def _loaded():
    from fairseq_posattn.inspection.model import load

    folder = translation_model()
    return load(folder / "run/checkpoint_last.pt", str(folder / "data"))


def build(folder: Path) -> None:
    write(folder / "references", TARGET)
    trees = "".join(conllu(line.split()) for line in WORDS)
    (folder / "trees.conllu").write_text(trees, encoding="utf-8")


def with_loaded_model() -> None:
    from fairseq_posattn.cli import examples
    from fairseq_posattn.inspection import model as loaded_model

    model = _loaded()
    with mock.patch.object(loaded_model, "load", lambda *_: model):
        examples.main()


def command(folder: Path) -> Command:
    options = [translation_model() / "data", "--path", "unused", "--gen-subset", "valid"]
    options += ["--sentences", 0, 6, "--beam", 1, "--out", folder / "out.json"]
    files = ["--references", folder / "references", "--trees", folder / "trees.conllu"]
    return Command(with_loaded_model, [*options, *files])


for name, mutations in (("references", LINES), ("trees.conllu", COLUMNS)):
    add(f"examples: {name}", build, name, mutations, "out.json", share=0.1)(command)
