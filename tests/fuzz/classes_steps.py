"""The text files between the steps: segment.py learn, project.py, binarize.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .corpora import binarizing, write_pieces, write_text
from .mutations import COLUMNS, LINES
from .registry import add, program
from .runner import Command, InputClass


def learning(folder: Path) -> Command:
    texts = [folder / "train.de", folder / "train.en"]
    options = ["learn", *texts, "--codes", folder / "codes", "--symbols", 10]
    return Command(program("segment"), options)


def learning_sentencepiece(folder: Path) -> Command:
    options = ["learn", folder / "train.en", "--sentencepiece", folder / "spm", "--symbols", 36]
    return Command(program("segment"), options)


def projecting(folder: Path) -> Command:
    text = folder / "text"
    options = ["--words", text / "train.words", "--parents", text / "train.parents"]
    pieces = ["--pieces", folder / "pieces.de", "--out", folder / "out.trees"]
    labels = ["--labels", text / "train.labels"]
    return Command(program("project"), [*options, *pieces, *labels])


add(
    InputClass(
        "text to learn merges from",
        write_text,
        learning,
        damaged=["train.de", "train.en"],
        mutations=LINES,
        outputs=["codes"],
        share=0.5,
    )
)
add(
    InputClass(
        "text to learn sentencepiece from",
        write_text,
        learning_sentencepiece,
        damaged=["train.en"],
        mutations=LINES,
        outputs=["spm"],
        share=0.2,
    )
)
add(
    InputClass(
        "words, parents, labels and pieces",
        write_pieces,
        projecting,
        damaged=["text/train.words", "text/train.parents", "text/train.labels", "pieces.de"],
        mutations=COLUMNS,
        outputs=["out.trees"],
        also_named=["train.words", "train.parents", "train.labels", "pieces.de"],  # they disagree
    )
)
add(
    InputClass(
        "pieces and trees to binarise",
        partial(write_pieces, labels=True),
        lambda folder: binarizing(folder, folder / "data"),
        damaged=["pieces.de", "pieces.en", "pieces.de.trees"],
        mutations=COLUMNS,
        outputs=["data/*"],
        also_named=["pieces.de", "pieces.en"],
        share=0.5,
    )
)
