"""This module makes small corpora that several classes damage: text, trees, merges, binary data."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from support.commands import FULL_TREE
from support.files import write

from .registry import made_once, program
from .runner import Command, run

WORDS = [
    "der alte Hund sieht im Garten einen Ball .",
    "ein Kind lacht .",
    "",
    "die Gärtnerin gießt den kleinen Baum und singt dabei ein Lied .",
    "Hunde lachen nicht .",
    "im Garten steht ein Baum .",
    "der Hund sieht das Kind .",
    "das Kind singt .",
]
TARGET = [
    "the old dog sees a ball in the garden .",
    "a child laughs .",
    "",
    "the gardener waters the small tree and sings a song .",
    "dogs do not laugh .",
    "there is a tree in the garden .",
    "the dog sees the child .",
    "the child sings .",
]


def parents_of(words: list[str]) -> list[int]:
    """The second word is the root; each other hangs from it or from the one before."""
    if len(words) < 2:
        return [0] * len(words)
    return [2, 0, *(2 if k % 2 else k - 1 for k in range(3, len(words) + 1))]


def conllu(words: list[str], tags: bool = True) -> str:
    rows = [f"# text = {' '.join(words)}"]
    for k, (word, parent) in enumerate(zip(words, parents_of(words), strict=True), start=1):
        tag = ("PUNCT" if word == "." else "NOUN" if word[0].isupper() else "X") if tags else "_"
        relation = "dep" if parent else "root"
        rows.append(f"{k}\t{word}\t_\t{tag}\t_\t_\t{parent}\t{relation}\t_\t_")
    return "\n".join(rows) + "\n\n"


def labels_line(words: list[str]) -> str:
    """The relations and the parts of speech that `conllu` gives the words."""
    rows = [line.split("\t") for line in conllu(words).splitlines() if line and line[0] != "#"]
    return " ".join(row[7] for row in rows) + "\t" + " ".join(row[3] for row in rows)


def write_text(folder: Path, prefix: str = "train") -> None:
    """Write PREFIX.de, PREFIX.en, PREFIX.conllu, PREFIX.words, PREFIX.parents and PREFIX.labels."""
    sentences = [line.split() for line in WORDS]
    write(folder / f"{prefix}.de", WORDS)
    write(folder / f"{prefix}.en", TARGET)
    write(folder / f"{prefix}.words", WORDS)
    parents = [" ".join(map(str, parents_of(words))) for words in sentences]
    write(folder / f"{prefix}.parents", parents)
    write(folder / f"{prefix}.labels", map(labels_line, sentences))
    text = "".join(conllu(words) for words in sentences)
    (folder / f"{prefix}.conllu").write_text(text, encoding="utf-8")


def must_pass(command: Command) -> None:
    ended = run(command)
    if ended.code != 0:
        raise AssertionError(ended)


def learn_merges(folder: Path) -> None:
    """Learn merges from the text of `write_text` and write them to the file codes."""
    texts = [folder / "train.de", folder / "train.en"]
    options = ["learn", *texts, "--codes", folder / "codes", "--symbols", 30]
    must_pass(Command(program("segment"), options))


def segmented(folder: Path, text: Path, out: Path) -> None:
    options = ["apply", text, "--codes", folder / "codes", "--out", out]
    must_pass(Command(program("segment"), options))


def write_pieces(folder: Path, labels: bool = False) -> None:
    """text/, and pieces.de, pieces.en, pieces.de.trees made of it; the trees may have labels."""
    text = folder / "text"
    text.mkdir()
    write_text(text)
    learn_merges(text)
    for language in ("de", "en"):
        segmented(text, text / f"train.{language}", folder / f"pieces.{language}")
    files = ["--words", text / "train.words", "--parents", text / "train.parents"]
    options = [*files, "--pieces", folder / "pieces.de"]
    options += ["--labels", text / "train.labels"] if labels else []
    must_pass(Command(program("project"), options))


def binarizing(pieces: Path, destination: Path) -> Command:
    """Of the files that `write_pieces` makes."""
    options = ["--source-lang", "de", "--target-lang", "en", "--destdir", destination]
    files = ["--trainpref", pieces / "pieces", "--validpref", pieces / "pieces"]
    return Command(program("binarize"), [*options, *files])


def build_binarised(folder: Path, labels: bool = False) -> None:
    (folder / "pieces").mkdir()
    write_pieces(folder / "pieces", labels)
    must_pass(binarizing(folder / "pieces", folder / "data"))


binarised, labelled = made_once(build_binarised), made_once(partial(build_binarised, labels=True))


def copy_binarised(folder: Path) -> None:
    """data/ with trees: the sets train and valid, made once."""
    shutil.copytree(binarised() / "data", folder / "data")


def copy_labelled(folder: Path) -> None:
    """The same with labels of words."""
    shutil.copytree(labelled() / "data", folder / "data")


@made_once
def translation_model(folder: Path) -> None:
    """data/, and a model of one update in run/."""
    from support.in_process import train

    copy_binarised(folder)
    options = [*FULL_TREE, "-s", "de", "-t", "en", "--max-update", "1", "--disable-validation"]
    train(folder / "data", folder / "run", *options)
