"""posattn-tag tags text and CoNLL-U with a small trained model."""

from __future__ import annotations

import contextlib
import io
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from support.files import write

from .classes_tagging import build_data
from .corpora import WORDS, conllu
from .mutations import COLUMNS, LINES
from .registry import add
from .runner import Command, InputClass


@cache
def _model() -> TemporaryDirectory:
    from support.in_process import call

    folder = TemporaryDirectory(prefix="fuzz-tagger-")
    build_data(Path(folder.name))
    options = ["--task", "tagging", "--arch", "san_tagger", "--criterion", "tagging", "--cpu"]
    options += ["--optimizer", "adam", "--lr", "0.01", "--max-update", "2", "--batch-size", "4"]
    options += ["--encoder-embed-dim", "8", "--char-embed-dim", "8", "--encoder-layers", "1"]
    options += ["--save-dir", f"{folder.name}/model", "--num-workers", "0"]
    with contextlib.redirect_stdout(io.StringIO()):
        call("train", f"{folder.name}/data", *options)
    return folder


def build(folder: Path) -> None:
    shutil.copy(Path(_model().name) / "model/checkpoint_last.pt", folder / "model.pt")
    shutil.copytree(Path(_model().name) / "data", folder / "data")
    write(folder / "text", WORDS)
    sentences = "".join(conllu(line.split(), tags=False) for line in WORDS if line)
    (folder / "text.conllu").write_text(sentences, encoding="utf-8")


def tagging(folder: Path, name: str) -> Command:
    from fairseq_posattn.cli.tag import main

    options = [folder / "model.pt", "--data", folder / "data", "--cpu"]
    files = ["--text", folder / name, "--out", folder / "out"]
    return Command(main, [*options, *files])


for name, mutations in (("text", LINES), ("text.conllu", COLUMNS)):
    add(
        InputClass(
            f"new {name} to tag",
            build,
            lambda folder, name=name: tagging(folder, name),
            damaged=[name],
            mutations=mutations,
            outputs=["out"],
            share=0.2,
        )
    )
