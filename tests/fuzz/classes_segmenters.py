"""What was learnt to segment text with: merges, their vocabulary, a sentencepiece model."""

from __future__ import annotations

from pathlib import Path

from .corpora import learn_merges, must_pass, write_text
from .mutations import BYTES, COLUMNS, LINES
from .registry import add, program
from .runner import Command, InputClass


def applying(folder: Path, *options) -> Command:
    files = ["apply", folder / "train.de", "--out", folder / "out"]
    return Command(program("segment"), [*files, *options])


def build_merges(folder: Path) -> None:
    write_text(folder)
    learn_merges(folder)
    counts = "".join(f"{piece} {k + 1}\n" for k, piece in enumerate("abcdeghilnorst"))
    (folder / "vocabulary").write_text(counts, encoding="utf-8")


def build_sentencepiece(folder: Path) -> None:
    write_text(folder)
    texts = [folder / "train.de", folder / "train.en"]
    options = ["learn", *texts, "--sentencepiece", folder / "model", "--symbols", 60]
    must_pass(Command(program("segment"), options))


def projecting(folder: Path) -> Command:
    options = ["--words", folder / "train.words", "--parents", folder / "train.parents"]
    options += ["--text", folder / "train.de", "--sentencepiece", folder / "model"]
    options += ["--pieces", folder / "pieces", "--out", folder / "out"]
    return Command(program("project"), options)


def build_pieces(folder: Path) -> None:
    build_sentencepiece(folder)
    options = ["apply", folder / "train.de", "--out", folder / "pieces"]
    options += ["--sentencepiece", folder / "model"]
    must_pass(Command(program("segment"), options))


add(
    InputClass(
        "merges",
        build_merges,
        lambda f: applying(f, "--codes", f / "codes"),
        damaged=["codes"],
        mutations=COLUMNS,
        outputs=["out"],
    )
)
add(
    InputClass(
        "text to segment",
        build_merges,
        lambda f: applying(f, "--codes", f / "codes"),
        damaged=["train.de"],
        mutations=LINES,
        outputs=["out"],
        share=0.5,
    )
)
add(
    InputClass(
        "vocabulary of merges",
        build_merges,
        lambda f: applying(
            f, "--codes", f / "codes", "--vocabulary", f / "vocabulary", "--vocabulary-threshold", 3
        ),
        damaged=["vocabulary"],
        mutations=COLUMNS,
        outputs=["out"],
        share=0.5,
    )
)
add(
    InputClass(
        "sentencepiece model",
        build_sentencepiece,
        lambda f: applying(f, "--sentencepiece", f / "model"),
        damaged=["model"],
        mutations=BYTES,
        outputs=["out"],
    )
)
add(
    InputClass(
        "sentencepiece model and pieces",
        build_pieces,
        projecting,
        damaged=["model", "pieces", "train.de", "train.words"],
        mutations=COLUMNS,
        outputs=["out"],
        also_named=["pieces", "train.de", "train.words"],
        share=0.5,
    )
)
