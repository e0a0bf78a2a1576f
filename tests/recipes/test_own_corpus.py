"""A recipe for one's own corpus, from its first line to the report, by the documented commands."""

import csv
import re

import pytest

from fairseq_posattn.experiments.recipe import CHECKOUT
from support import warm
from support.commands import ROOT, run
from support.experiments import TINY, tidy
from support.files import lines_of, write
from support.unspaced import write_english_to_chinese, write_japanese_to_english

pytest.importorskip("stanza")
pytestmark = pytest.mark.long(ci=True)


def documented() -> list[list[str]]:
    """Return the three commands as they stand in README.md, without the comments."""
    text = (CHECKOUT / "README.md").read_text()
    code = re.search(r"## Your own text\n.*?```bash\n(.*?)```", text, re.S)[1]
    return [line.partition("#")[0].split() for line in code.splitlines()]


def test_three_commands(corpus, tmp_path):
    """Only names, places and sizes are others than in the document."""
    folder, mine = tmp_path / "my_corpus", tmp_path / "mine"
    folder.mkdir()
    for name in ("train", "val", "test_a", "test_b"):
        for language, lines in zip(("de", "en"), tidy(corpus, name), strict=True):
            write(folder / f"{name}.{language}", lines)
    places = {"mine": mine, "raw": folder, "en": "de", "de": "en"}
    places["--download"] = f"--model-dir={corpus.models}"
    more = {
        "new": [],
        "prepare": ["--symbols", 90, "--workers", 2],
        "table": ["--updates", 3, "--last", 1, "--seeds", "1-3", "--", *TINY],
    }
    steps = documented()
    assert [words[0] for words in steps] == [f"recipes/{step}.sh" for step in more]
    for (program, *words), step in zip(steps, more, strict=True):
        words = [places.get(word, word) for word in words]
        told = run(ROOT / program, *words, *more[step], env=warm.variables()).stdout
    assert "no GPU is visible, so models of size demo are trained on the CPU" in told
    assert lines_of(mine / "work/raw/train.de") == tidy(corpus, "train")[0]
    rows = list(csv.DictReader((mine / "work/table.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["sequence", "structural", "structural_chain"]
    for row in rows:
        assert row["runs"] == "3"
        assert all(float(row[f"{test} BLEU"]) >= 0 for test in ("test_a", "test_b"))
    page = (mine / "work/report.html").read_text()
    assert "structural_chain.demo" in page and "de to en" in page


@pytest.mark.parametrize(
    ("source", "target", "write_corpus", "tokenizer"),
    [
        ("ja", "en", write_japanese_to_english, "13a"),
        ("en", "zh", write_english_to_chinese, "zh"),
    ],
)
def test_languages_without_spaces(source, target, write_corpus, tokenizer, stanza_models, tmp_path):
    """Japanese trees come from another parser, beside the text; English is parsed by stanza."""
    raw, mine, models = tmp_path / "raw", tmp_path / "mine", ["sequence", "structural"]
    write_corpus(raw)
    parser = ["--parser", "conllu", "--tokenize", "spaces"]
    if source == "en":
        parser = ["--model-dir", stanza_models.toy]
    steps = {
        "new": ["--source", source, "--target", target, "--from", raw],
        "prepare": ["--models", *models, "--", "--symbols", 60 if source == "ja" else 300, *parser],
        "table": ["--models", *models, "--updates", 3, "--last", 1, "--", *TINY],
    }
    for step, words in steps.items():
        run("posattn", "recipe", step, mine, *words, env=warm.variables())
    rows = list(csv.DictReader((mine / "work/table.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == models
    score = next((mine / "work/results").glob("structural.demo.*.json")).read_text()
    assert f"tok:{tokenizer}" in score
    words = (mine / f"work/raw/test.{source}").read_text().split("\n")[0].split()
    page = (mine / "work/report.html").read_text()
    assert all(word in page for word in words)
