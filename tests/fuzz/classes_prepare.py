"""prepare.py: raw text, and the folder of the files between its steps."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from .classes_parts import shards_done_here
from .corpora import must_pass, write_text
from .mutations import JSON, LINES
from .registry import add, program
from .runner import Command, InputClass

OPTIONS = [
    *("--source", "de", "--target", "en", "--parser", "conllu", "--tokenize", "spaces"),
    *("--target-tokenize", "spaces", "--no-normalize", "--symbols", "20"),
]


def preparing(folder: Path, train: str) -> Command:
    def main() -> None:
        with mock.patch("fairseq_posattn.work.running.run", shards_done_here):
            program("prepare")()

    files = ["--train", folder / train, "--valid", folder / "valid", "--out", folder / "data"]
    return Command(main, [*OPTIONS, *files])


def build(folder: Path) -> None:
    for prefix in ("train", "valid"):
        write_text(folder, prefix)


def build_work(folder: Path) -> None:
    build(folder)
    must_pass(preparing(folder, "train"))


def data(folder: Path) -> dict[str, bytes]:
    files = sorted((folder / "data").glob("*"))
    return {path.name: path.read_bytes() for path in files if path.name != "preprocess.log"}


add(
    InputClass(
        "raw text to prepare",
        build,
        lambda folder: preparing(folder, "train"),
        damaged=["train.de", "train.en", "train.conllu"],
        mutations=LINES,
        outputs=["data/*", "data.work/*"],
        left=["data.work/*"],
        also_named=["train.de", "train.en", "train.text.de", "train.clean", "train.pieces"],
        share=0.2,
    )
)
add(
    InputClass(
        "data.work: stamps",
        build_work,
        lambda folder: preparing(folder, "train"),
        damaged=["data.work/steps/*.json"],
        mutations=JSON,
        outputs=["data/*", "data.work/*"],
        left=["data.work/*"],
        result=data,
        share=0.2,
    )
)
add(
    InputClass(
        "data.work: files between the steps, and data",
        build_work,
        lambda folder: preparing(folder, "train"),
        damaged=["data.work/*.*", "data.work/segmenter", "data/*.*"],
        mutations=LINES,
        outputs=["data/*", "data.work/*"],
        left=["data.work/*"],
        result=data,
        share=0.2,
    )
)
