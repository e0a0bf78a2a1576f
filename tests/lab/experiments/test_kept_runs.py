"""Translations that a recipe keeps: what is kept, and tables from it without a training."""

import csv
import json
import lzma
import sys

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments.runs import Run, RunRecord
from fairseq_posattn.lab.experiments.study import keep, kept
from support.commands import run
from support.files import lines_of, write

RECIPE = """
title = "x"
source = "en"
target = "de"
corpus = { valid = "dev", tests = ["gen", "test"] }
models = [{ model = "sequence", size = "base" }, { model = "relative", size = "base" }]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000 }
evaluation = { main = "exact", subsets = { gen = ["kind"] } }
"""
TEXT = ["a b c d e", "f g h i j", "k l m n o", "p q r s t"]
RIGHT = {  # by model and seed, how many sentences are right
    ("older", 1): 0,
    ("relative", 1): 4,
    ("relative", 2): 3,
    ("sequence", 1): 2,
    ("sequence", 2): 1,
}


@pytest.fixture
def recipe(tmp_path):
    """A recipe with its texts, and what runs have written, of one model that it has no more."""
    write(tmp_path / "recipe.toml", RECIPE)
    for name in ("train", "dev", "gen", "test"):
        for language in ("en", "de"):
            write(tmp_path / f"work/raw/{name}.{language}", TEXT)
    write(tmp_path / "work/raw/gen.kind", ["deep", "flat", "deep", "flat"])
    runs = []
    for (name, seed), right in RIGHT.items():
        runs.append(Run(tmp_path / "runs", RunRecord(name, "base", seed, 2, "own", [], {})))
        runs[-1].begin()
        for test in ("gen", "test"):
            wrong = [line[::-1] for line in TEXT[right:]]
            write(runs[-1].folder / f"{test}.hyp", TEXT[:right] + wrong)
    keep(tmp_path / "study", runs, ["gen", "test"])
    return tmp_path


def table(recipe, *options, **kwargs):
    program = (sys.executable, "-m", "fairseq_posattn.cli.recipe")
    return run(*program, "table", recipe, "--from-study", "--cpu", *options, **kwargs)


def test_what_is_kept(recipe):
    found = kept(recipe / "study", recipe / "logs")
    assert [(run.record.name, run.record.seed) for run in found] == list(RIGHT)
    for one in found:
        text = lzma.decompress(one.translations("gen").read_bytes()).decode()
        right = [line == of_text for line, of_text in zip(text.splitlines(), TEXT, strict=True)]
        assert sum(right) == RIGHT[one.record.name, one.record.seed]
    assert json.loads((recipe / "study/older.base.seed1.json").read_text())["updates"] == 2


def test_tables_without_a_training(recipe):
    printed = table(recipe, "--baseline", "sequence").stdout
    rows = list(csv.DictReader((recipe / "work/table.csv").read_text().splitlines()))
    assert [(row["model"], row["runs"], row["gen exact"]) for row in rows] == [
        ("sequence", "2", "37.50"),
        ("relative", "2", "87.50"),
        ("older", "1", "0.00"),
    ]
    assert float(rows[1]["gen p against sequence"]) < 1 and rows[2]["gen p against sequence"] == ""
    assert "| deep | 2 | 50.0" in printed and "| flat | 2 | 25.0" in printed
    assert (recipe / "work/report.html").exists()
    figure = (recipe / "work/subsets.gen.kind.svg").read_text()
    assert all(text in figure for text in ("deep", "flat", "sequence.base", "relative.base"))
    assert not (recipe / "work/runs").exists()
    page = (recipe / "work/reproducibility.md").read_text()
    assert page.count("parameters, times and machines are not known") == 1
    assert "## Machines" not in page and "| model | size | runs | gen | test |" in page
    assert "| `sequence` | base | 2 (seeds 1, 2) | exact 37.50 (" in page
    assert f"posattn-recipe table {recipe} --from-study --cpu --baseline sequence\n" in page


def test_some_models_and_seeds(recipe):
    table(recipe, "--models", "relative", "--seeds", "2")
    [row] = csv.DictReader((recipe / "work/table.csv").read_text().splitlines())
    assert (row["model"], row["runs"], row["gen exact"]) == ("relative", "1", "75.00")


@pytest.mark.parametrize(
    ("damage", "options", "message"),
    [
        ("study/older.base.seed1.gen.xz", (), "older.base.seed1.gen.xz: there is no such file, so"),
        ("work/raw/gen.de", (), "gen.de"),
        ("", ("--keep",), "--keep and --from-study: what is made from the study is kept already"),
        ("", ("--models", "csan_2d"), "csan_2d"),
        ("", ("--seeds", "7"), "no run is kept with --seeds 7"),
        ("", ("--seeds", "2"), "older: no run that is kept has one of these --seeds"),
    ],
)
def test_what_cannot_be_made(recipe, damage, options, message):
    if damage:
        (recipe / damage).unlink()
    refused = table(recipe, *options, check=False)
    assert refused.returncode and message in refused.stdout
    assert "Traceback" not in refused.stdout
    assert not (recipe / "work/table.md").exists()


def test_a_recipe_that_keeps_nothing(tmp_path):
    with pytest.raises(InputError, match=r"study: no run is kept there; keep some by table\.sh"):
        kept(tmp_path / "study", tmp_path)


def test_an_earlier_run_gives_way(recipe):
    later = Run(recipe / "runs", RunRecord("older", "base", 1, 3, "own", [], {}))
    later.begin()
    for test in ("gen", "test"):
        write(later.folder / f"{test}.hyp", TEXT)
    keep(recipe / "study", [later], ["gen", "test"])
    [first, *_] = kept(recipe / "study", recipe)
    assert first.record.updates == 3
    assert lzma.decompress(first.translations("test").read_bytes()).decode().split("\n")[:4] == TEXT
    assert lines_of(later.folder / "test.hyp") == TEXT


def test_no_record_stands_beside_translations_of_another_run(recipe):
    later = Run(recipe / "runs", RunRecord("older", "base", 1, 3, "own", [], {}))
    later.begin()
    write(later.folder / "gen.hyp", TEXT)
    with pytest.raises(FileNotFoundError):  # the other test set was not translated
        keep(recipe / "study", [later], ["gen", "test"])
    [first, *_] = kept(recipe / "study", recipe)
    assert first.record.updates == 2
    kept_text = lzma.decompress(first.translations("gen").read_bytes()).decode()
    assert kept_text.split("\n")[0] == TEXT[0][::-1]
