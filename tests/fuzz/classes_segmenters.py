"""What segments text, and the text files between the steps: segment, project, binarize."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .corpora import binarizing, learn_merges, must_pass, write_pieces, write_text
from .mutations import BYTES, COLUMNS, LINES
from .registry import Command, add, program


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


add("merges", build_merges, "codes", COLUMNS, "out")(lambda f: applying(f, "--codes", f / "codes"))
add("text to segment", build_merges, "train.de", LINES, "out", share=0.5)(
    lambda f: applying(f, "--codes", f / "codes")
)
add("vocabulary of merges", build_merges, "vocabulary", COLUMNS, "out", share=0.5)(
    lambda f: applying(
        f, "--codes", f / "codes", "--vocabulary", f / "vocabulary", "--vocabulary-threshold", 3
    )
)
add("sentencepiece model", build_sentencepiece, "model", BYTES, "out")(
    lambda f: applying(f, "--sentencepiece", f / "model")
)
add(
    "sentencepiece model and pieces",
    build_pieces,
    "model pieces train.de train.words",
    COLUMNS,
    "out",
    also_named="pieces train.de train.words",
    share=0.5,
)(projecting)


@add("text to learn merges from", write_text, "train.de train.en", LINES, "codes", share=0.5)
def learning(folder: Path) -> Command:
    texts = [folder / "train.de", folder / "train.en"]
    options = ["learn", *texts, "--codes", folder / "codes", "--symbols", 10]
    return Command(program("segment"), options)


@add("text to learn sentencepiece from", write_text, "train.en", LINES, "spm", share=0.2)
def learning_sentencepiece(folder: Path) -> Command:
    options = ["learn", folder / "train.en", "--sentencepiece", folder / "spm", "--symbols", 36]
    return Command(program("segment"), options)


@add(
    "words, parents, labels and pieces",
    write_pieces,
    "text/train.words text/train.parents text/train.labels pieces.de",
    COLUMNS,
    "out.trees",
    also_named="train.words train.parents train.labels pieces.de",  # they disagree
)
def projecting_merges(folder: Path) -> Command:
    text = folder / "text"
    options = ["--words", text / "train.words", "--parents", text / "train.parents"]
    pieces = ["--pieces", folder / "pieces.de", "--out", folder / "out.trees"]
    labels = ["--labels", text / "train.labels"]
    return Command(program("project"), [*options, *pieces, *labels])


add(
    "pieces and trees to binarise",
    partial(write_pieces, labels=True),
    "pieces.de pieces.en pieces.de.trees",
    COLUMNS,
    "data/*",
    also_named="pieces.de pieces.en",
    share=0.5,
)(lambda folder: binarizing(folder, folder / "data"))
