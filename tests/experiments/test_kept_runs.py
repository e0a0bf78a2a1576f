"""Results that are stored in a recipe, and the tables that are made of them without a training."""

import csv
import hashlib
import json
import lzma
import sys

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_options import Table
from fairseq_posattn.experiments.runs import Run, RunRecord, runs_in
from fairseq_posattn.experiments.study import (
    StoredRun,
    check_pools,
    check_references,
    stored_runs,
)
from fairseq_posattn.experiments.translation import Translation
from fairseq_posattn.scoring.score import ScoreRequest, score
from support.commands import run
from support.experiments import in_process
from support.files import write

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
    for (name, seed), right in RIGHT.items():
        run = Run(tmp_path / "runs", RunRecord(name, "base", seed, 2, "own", [], {}))
        run.record_start()
        for test in ("gen", "test"):
            wrong = [line[::-1] for line in TEXT[right:]]
            write(run.folder / f"{test}.hyp", TEXT[:right] + wrong)
    experiment(tmp_path).store_results(runs_in(tmp_path / "runs"), ["gen", "test"])
    return tmp_path


def experiment(recipe) -> Translation:
    return Translation(Table(recipe=str(recipe), last=3))


def statistics(run, test: str) -> str:
    return lzma.decompress(run.scored(test).read_bytes()).decode()


def table(recipe, *options, **kwargs):
    program = (sys.executable, "-m", "fairseq_posattn.cli.recipe")
    return run(*program, "table", recipe, "--from-study", "--cpu", *options, **kwargs)


@pytest.mark.long(ci=True)
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
    assert "| sequence.base.seed2 | – | " in page and "| `beam` | 5 |" in page
    assert f"posattn recipe table {recipe} --from-study --cpu --baseline sequence\n" in page


@pytest.mark.long(ci=True)
def test_some_models_and_seeds(recipe):
    table(recipe, "--models", "relative", "--seeds", "2")
    [row] = csv.DictReader((recipe / "work/table.csv").read_text().splitlines())
    assert (row["model"], row["runs"], row["gen exact"]) == ("relative", "1", "75.00")


@pytest.mark.parametrize(
    ("damage", "options", "message"),
    [
        (
            "study/older.base.seed1.gen.xz",
            (),
            "older.base.seed1.gen.xz: there is no such file; restore it",
        ),
        ("work/raw/gen.de", (), "gen.de"),
        (
            "",
            ("--keep",),
            "--from-study reads the results that --keep stored earlier; omit --keep",
        ),
        ("", ("--models", "csan_2d"), "csan_2d"),
        ("", ("--seeds", "7"), "no run with seed 7 is stored"),
        ("", ("--seeds", "2"), "older: no run with one of these --seeds is stored"),
    ],
)
def test_what_cannot_be_made(recipe, damage, options, message):
    if damage:
        (recipe / damage).unlink()
    assert message in refusal(recipe, *options)
    assert not (recipe / "work/table.md").exists()


def refusal(recipe, *options: str) -> str:
    """Return the line that the table ends with."""
    *_, line = in_process("table", recipe, "--from-study", "--cpu", *options)[2].splitlines()
    assert line.startswith("error: ")
    return line


def changed(recipe, run: str, to: str = "", /, **values) -> None:
    """Change a record of the study, or write it under another name."""
    path = recipe / f"study/{run}.json"
    record = {**json.loads(path.read_text()), **values}
    (recipe / f"study/{to or run}.json").write_text(json.dumps(record))


ANOTHER = {"dict.en.txt": {"bytes": 1, "sha256": "0"}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"updates": 3}, "--updates was '2', is now '3'"),
        ({"tested": "chain"}, "the tests was 'own', is now 'chain'"),
        ({"files": ANOTHER}, "the content of dict.en.txt differs"),
        ({"translated": {"averaged": 3, "beam": 4, "lenpen": 1}}, "beam was '5', is now '4'"),
    ],
)
def test_runs_that_differ_are_not_pooled(recipe, values, message):
    changed(recipe, "relative.base.seed2", **values)
    line = refusal(recipe)
    assert f"{recipe}/study/relative.base.seed2.json cannot be pooled" in line
    assert message in line and not (recipe / "work/table.md").exists()
    runs = stored_runs(recipe / "study")
    check_pools([run for run in runs if run.record.seed == 1])
    changed(recipe, "relative.base.seed2", pooled_because="the machine was another one")
    check_pools(stored_runs(recipe / "study"))


@pytest.mark.parametrize(
    ("to", "values", "message"),
    [
        (
            "relative.base.seed3",
            {},
            "this file contains the record of relative.base.seed1; rename it",
        ),
        ("relative.base.seed3", {"seed": 3, "options": ["--seed", "1"]}, "seed is 3, but the opti"),
        ("z", {"name": "../../x/evil"}, 'name is "../../x/evil", expected a plain name'),
        ("z", {"name": "-o"}, 'name is "-o", expected a plain name'),
        ("z", {"size": "/x"}, 'size is "/x", expected a plain name'),
        ("z", {"trees": "../x"}, 'trees is "../x", expected a plain name'),
        ("z", {"tested": ".."}, 'tested is "..", expected a plain name'),
        ("z", {"seed": -1}, "seed is -1, expected at least 0"),
    ],
)
def test_a_record_that_is_not_right(recipe, to, values, message):
    changed(recipe, "relative.base.seed1", to, **values)
    before = {path.name for path in recipe.rglob("*")}
    line = refusal(recipe)
    assert f"{recipe}/study/{to}.json: " in line and message in line
    assert {path.name for path in recipe.rglob("*")} == before


def test_references_that_have_changed(recipe, capsys):
    """Reversed they would give other scores. What is kept has their checksums."""
    study, texts = recipe / "study", recipe / "work/raw"
    for path in study.glob("*.json"):
        changed(recipe, path.stem, references={})
    check_references(stored_runs(study), experiment(recipe).references())
    assert (
        "4 others contain no checksums of references, so it is unknown" in capsys.readouterr().err
    )
    experiment(recipe).store_results(runs_in(recipe / "runs"), ["gen", "test"])
    found = stored_runs(study)
    sums = hashlib.sha256((texts / "gen.de").read_bytes()).hexdigest()
    assert [run.record.references["gen"] for run in found] == [[sums]] * len(RIGHT)
    assert found[0].record.translated == {"averaged": 3, "beam": 5, "lenpen": 1.0}
    check_references(found, experiment(recipe).references())
    assert capsys.readouterr().err == ""
    write(texts / "gen.de", TEXT[::-1])
    line = refusal(recipe)
    assert "older.base.seed1.json: the references of gen have changed since" in line


def test_a_recipe_that_keeps_nothing(tmp_path):
    with pytest.raises(InputError, match="study: no run is stored here; store runs with table"):
        stored_runs(tmp_path / "study")


def test_an_earlier_run_gives_way(recipe):
    """But no record is stored with the results of another run."""
    later = Run(recipe / "runs", RunRecord("older", "base", 1, 3, "own", [], {}))
    later.record_start()
    write(later.folder / "gen.hyp", TEXT)
    with pytest.raises(FileNotFoundError):  # the other test set was not translated
        experiment(recipe).store_results([later], ["gen", "test"])
    [first, *_] = stored_runs(recipe / "study")
    assert first.record.updates == 2 and statistics(first, "gen") == "0 1\n" * 4
    write(later.folder / "test.hyp", TEXT)
    experiment(recipe).store_results([later], ["gen", "test"])
    [first, *_] = stored_runs(recipe / "study")
    assert first.record.updates == 3 and statistics(first, "test") == "1 1\n" * 4


@pytest.mark.parametrize(
    "text", ["1 1\n1 1\n1\n1 1\n", "1 1\nx 1\n1 1\n1 1\n", "a b c d e\n" * 4, "5 1\n" * 4]
)
def test_results_that_are_damaged(recipe, text):
    path = recipe / "study/relative.base.seed1.gen.xz"
    path.write_bytes(lzma.compress(text.encode()))
    request = ScoreRequest(
        hypotheses=[str(path)],
        references=[str(recipe / "work/raw/gen.de")],
        target_lang="de",
        only_main=True,
        statistics=True,
    )
    with pytest.raises(InputError, match=f"{path}:.* expected the statistics of a sentence"):
        score(request)


@pytest.mark.parametrize(
    "change", ['main = "chrF2", ', 'score = { lowercase = true }, main = "exact", ']
)
def test_statistics_of_another_score(recipe, change):
    toml = (recipe / "recipe.toml").read_text().replace('main = "exact", ', change)
    write(recipe / "recipe.toml", toml)
    line = refusal(recipe)
    assert "seed1.json contains statistics of gen for exact|" in line
    assert "store new runs with table.sh --keep" in line


@pytest.mark.long(ci=True)
def test_the_default_score_of_tables_is_stored(recipe):
    """With --nist or several references, tables show NIST BLEU, not BLEU."""
    toml = (recipe / "recipe.toml").read_text().replace('main = "exact"', "score = { nist = true }")
    write(recipe / "recipe.toml", toml)
    experiment(recipe).store_results(runs_in(recipe / "runs"), ["gen", "test"])
    [first, *_] = stored_runs(recipe / "study")
    assert first.record.signatures["gen"].startswith("NIST BLEU|")
    printed = table(recipe).stdout
    assert "| relative | base | 2 |" in printed.replace("`", "") and "NIST BLEU: `" in printed


@pytest.mark.long(ci=True)
def test_the_scores_are_those_of_the_translations(recipe):
    """BLEU with its interval and its tests, from the translations and from what is stored."""
    toml = (recipe / "recipe.toml").read_text().replace('main = "exact", ', "")
    write(recipe / "recipe.toml", toml)
    experiment(recipe).store_results(runs_in(recipe / "runs"), ["gen", "test"])
    stored = stored_runs(recipe / "study")
    shared = {"references": [str(recipe / "work/raw/gen.de")], "target_lang": "de"}
    found = []
    for one, file in ((stored, StoredRun.scored), (runs_in(recipe / "runs"), Run.scored)):
        by_name = {
            name: [str(file(run, "gen")) for run in one if run.record.name == name]
            for name in ("relative", "sequence")
        }
        found.append(
            score(
                ScoreRequest(
                    hypotheses=by_name["relative"],
                    baseline=by_name["sequence"],
                    only_main=True,
                    statistics=one is stored,
                    **shared,
                )
            )
        )
    assert found[0].scores == found[1].scores
    assert found[0].baseline.scores == found[1].baseline.scores
    assert found[0].scores["BLEU"].score > found[0].baseline.scores["BLEU"].difference > 0
