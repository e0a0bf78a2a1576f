"""posattn examples: references and trees of sentences; the model is loaded once for all inputs."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from support.files import write

from .corpora import TARGET, WORDS, conllu, copy_binarised
from .mutations import COLUMNS, LINES
from .registry import Command, add


@cache
def _model() -> TemporaryDirectory:
    from support.in_process import train

    folder = TemporaryDirectory(prefix="fuzz-model-")
    copy_binarised(Path(folder.name))
    options = ["-s", "de", "-t", "en", "--max-update", "1", "--disable-validation"]
    options += ["--encoder-positions", "sequence + tree_depth", "--encoder-attention", "relative"]
    with contextlib.redirect_stdout(io.StringIO()):
        train(Path(folder.name) / "data", Path(folder.name) / "model", *options)
    return folder


@cache
def _loaded():
    from fairseq_posattn.lab.inspection.model import load

    folder = Path(_model().name)
    return load(folder / "model/checkpoint_last.pt", str(folder / "data"))


def build(folder: Path) -> None:
    write(folder / "references", TARGET)
    trees = "".join(conllu(line.split()) for line in WORDS)
    (folder / "trees.conllu").write_text(trees, encoding="utf-8")


def with_loaded_model() -> None:
    from fairseq_posattn.cli import examples
    from fairseq_posattn.lab.inspection import model as loaded_model

    model = _loaded()
    with mock.patch.object(loaded_model, "load", lambda *_: model):
        examples.main()


def command(folder: Path) -> Command:
    options = [Path(_model().name) / "data", "--path", "unused", "--gen-subset", "valid"]
    options += ["--sentences", 0, 6, "--beam", 1, "--out", folder / "out.json"]
    files = ["--references", folder / "references", "--trees", folder / "trees.conllu"]
    return Command(with_loaded_model, [*options, *files])


for name, mutations in (("references", LINES), ("trees.conllu", COLUMNS)):
    add(f"examples: {name}", build, name, mutations, "out.json", share=0.1)(command)
