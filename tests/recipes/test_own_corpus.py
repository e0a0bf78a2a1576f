"""A recipe for one's own corpus, from its first line to the report, by the documented commands."""

import csv
import re

import pytest

from fairseq_posattn.experiments.recipe import CHECKOUT
from support import warm
from support.commands import ROOT, run
from support.experiments import TINY, tidy
from support.files import lines_of, write

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
