"""posattn-train-parser: a treebank in, a folder for --model-dir out, whatever happens meanwhile."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fairseq_posattn.trees.conllu import read_conllu
from support.commands import step
from support.files import write
from support.parse_toys import (
    make_contracted_treebank,
    train_toy,
)

LINES = "der Hund ging im Wald zum Haus.\nder Ball lief.\n"
TOKENS = [["der", "Hund", "ging", "im", "Wald", "zum", "Haus", "."], ["der", "Ball", "lief", "."]]


def universal_dependencies(folder: Path, make=make_contracted_treebank) -> Path:
    """A treebank as Universal Dependencies have it."""
    make(folder / "made")
    for split in ("train", "dev"):
        shutil.move(folder / f"made/{split}.src.conllu", folder / f"qde_toy-ud-{split}.conllu")
    return folder


def trees_of(text: str, models: Path, folder: Path) -> list[str]:
    """What posattn-parse makes of a text with these models."""
    file = write(folder / "text", text)
    options = ["--lang", "qde", "--model-dir", models, "--out", folder / "parsed.conllu"]
    step("parse", file, *options)
    return (folder / "parsed.conllu").read_text()


@pytest.mark.long(ci=True)
def test_the_folder_is_what_posattn_parse_takes(tmp_path):
    """For a language that stanza does not know, with multiword tokens."""
    (tmp_path / "treebank").mkdir()
    treebank, out = universal_dependencies(tmp_path / "treebank"), tmp_path / "models"
    printed = train_toy(treebank, "--lang", "qde", "--out", out).stdout
    scores = json.loads((out / "trained.json").read_text())["answer"]["scores"]
    assert list(scores) == ["upos", "uas", "las", "token_f1", "word_f1"]
    assert min(scores.values()) > 90, scores
    assert re.search(rf"^{out}: on dev, UPOS {scores['upos']:.2f}, .* F1 of words", printed, re.M)
    trees_of(LINES, out, tmp_path)
    assert [tree.tokens for tree in read_conllu(tmp_path / "parsed.conllu")] == TOKENS

    shutil.rmtree(f"{out}.work")
    again = train_toy(treebank, "--lang", "qde", "--out", out).stdout
    assert again.splitlines() == [f"{out}: this was trained before", printed.splitlines()[-1]]
    other = train_toy(treebank, "--lang", "qen", "--out", out, check=False)
    assert other.returncode == 1
    assert "the folder holds something else than the parser" in other.stdout
