"""recipes/ud_tagging as a user runs it, and the arithmetic of its tables."""

import json
import os
import sys
from importlib import util
from statistics import mean

import pytest

from commands import ROOT, run

RECIPE = ROOT / "recipes/ud_tagging"
SMALL = ["--", "--encoder-embed-dim", "16", "--char-filters", "16", "--encoder-layers", "1"]
ENVIRONMENT = {"VIRTUAL_ENV": sys.prefix}


def module(name):
    spec = util.spec_from_file_location(f"ud_tagging_{name}", RECIPE / f"{name}.py")
    loaded = util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def write_treebank(folder):
    """Names and verbs by turns, in files named as UD names them."""
    folder.mkdir()
    for split, sentences in (("train", 40), ("dev", 6), ("test", 6)):
        blocks = []
        for k in range(sentences):
            words = [("Ana", "PROPN"), ("runs", "VERB"), (f"x{k}ly", "ADV")][: 2 + k % 2]
            rows = [
                f"{n}\t{word}\t_\t{tag}\tT{tag[0]}\t_\t{n - 1}\t_\t_\t_"
                for n, (word, tag) in enumerate(words, start=1)
            ]
            blocks.append(f"# sent_id = {k}\n" + "\n".join(rows) + "\n\n")
        (folder / f"xx_toy-ud-{split}.conllu").write_text("".join(blocks))
    (folder / "README.txt").write_text("about train, dev and test\n")
    return folder


@pytest.mark.long
def test_table_of_a_small_treebank(tmp_path):
    treebank, work = write_treebank(tmp_path / "UD_Toy-XX"), tmp_path / "work"
    command = [RECIPE / "table.sh", "--cpu", "--models", "conv2d", "--seeds", "1 2"]
    command += ["--work", work, treebank]
    first = run(*command, *SMALL, "--max-epoch", "3", "--curve-interval", "2", env=ENVIRONMENT)
    results = {path.name: json.loads(path.read_text()) for path in work.glob("results/*.json")}
    assert set(results) == {"Toy-XX.conv2d.1.json", "Toy-XX.conv2d.2.json"}
    for result in results.values():
        assert 0 <= result["accuracy"] <= 100 and result["epochs"] == 3
        assert 1 <= result["best_epoch"] <= 3
    table = (work / "table.md").read_text()
    accuracies = [results[f"Toy-XX.conv2d.{seed}.json"]["accuracy"] for seed in (1, 2)]
    assert f"{mean(accuracies):.2f} ± " in table and table in first.stdout
    assert "| SAN+PE[add]+Conv2d |" in table and "94.40" in table
    assert (work / "curves.png").stat().st_size > 5000
    # what is done is not done again
    logs = {path: path.stat().st_mtime_ns for path in work.glob("runs/*/*")}
    run(*command, env=ENVIRONMENT)
    assert {path: path.stat().st_mtime_ns for path in work.glob("runs/*/*")} == logs


@pytest.mark.long
def test_an_interrupted_run_goes_on(tmp_path):
    treebank, work = write_treebank(tmp_path / "UD_Toy-XX"), tmp_path / "work"
    command = [RECIPE / "run.sh", "--cpu", "--treebank", treebank, "--work", work]
    command += ["--model", "pe_add", "--column", "xpos"]
    run(*command, *SMALL, "--max-epoch", "1", env=ENVIRONMENT)
    folder = work / "runs/Toy-XX.xpos.pe_add.1"
    (folder / "trained").unlink()  # as if it had been killed after its first epoch
    (work / "results/Toy-XX.xpos.pe_add.1.json").unlink()
    run(*command, *SMALL, "--max-epoch", "2", env=ENVIRONMENT)
    assert "Loaded checkpoint" in (folder / "train.log").read_text()
    result = json.loads((work / "results/Toy-XX.xpos.pe_add.1.json").read_text())
    assert result["epochs"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--treebank", "nowhere"], "nowhere is no folder"),
        (["--treebank", "."], "has 0 files with 'train'"),
        (["--treebank", ".", "--model", "conv3d"], "there are: san pe_con"),
        (["--treebank", ".", "--seed", "x"], "--seed x is no number"),
        (["--treebank"], "--treebank needs a value"),
        ([], "--treebank DIR"),
        (["--tree", "x"], "unknown option: --tree"),
    ],
)
def test_mistakes_are_named(tmp_path, options, message):
    work = [] if options == ["--treebank"] else ["--work", tmp_path / "work"]
    result = run(RECIPE / "run.sh", *work, *options, check=False, cwd=tmp_path, env=ENVIRONMENT)
    assert result.returncode and message in result.stdout


def test_a_failed_training_is_told(tmp_path):
    treebank = write_treebank(tmp_path / "UD_Toy-XX")
    command = [RECIPE / "run.sh", "--treebank", treebank, "--work", tmp_path / "work", "--cpu"]
    result = run(*command, "--", "--encoder-attention", "nothing", check=False, env=ENVIRONMENT)
    assert result.returncode and "no attention mechanism is called 'nothing'" in result.stdout
    assert not list((tmp_path / "work/results").iterdir())


def test_published_treebanks_have_the_published_means():
    table = module("table")
    treebanks, models = (table.read_table(RECIPE / f) for f in ("published.tsv", "models.tsv"))
    names = treebanks.pop("#")
    del treebanks["treebank"]
    assert len(treebanks) == 47
    for k, name in enumerate(names):
        of_47 = mean(float(row[k]) for row in treebanks.values())
        assert of_47 == pytest.approx(float(models[name][1]), abs=0.0051)


def test_means_and_deviations(tmp_path):
    table = module("table")
    for treebank, accuracies in (("A", (90, 92)), ("B", (80, 84))):
        for seed, accuracy in enumerate(accuracies):
            result = {"treebank": treebank, "model": "conv", "seed": seed, "accuracy": accuracy}
            (tmp_path / f"{treebank}.conv.{seed}.json").write_text(json.dumps(result))
    results = table.read_results(tmp_path)
    assert table.cell(table.of_seeds(results, "A", "conv", "accuracy")) == "91.00 ± 1.41"
    assert table.macro(results, ["A", "B"], "conv", "accuracy") == "86.50 ± 2.12"
    assert table.macro(results, ["A", "C"], "conv", "accuracy") == table.NONE
    assert table.macro(results, ["A", "B"], "conv", "oov_accuracy") == table.NONE


def test_a_run_that_has_stopped_keeps_its_last_accuracy():
    curves = [
        [{"updates": 100, "accuracy": 50.0}, {"updates": 200, "accuracy": 70.0}],
        [{"updates": u, "accuracy": a} for u, a in ((100, 60.0), (200, 80.0), (300, 90.0))],
    ]
    assert module("table").mean_curve(curves) == ([100, 200, 300], [55.0, 75.0, 80.0])


def test_results_of_nothing(tmp_path):
    (tmp_path / "results").mkdir()
    options = ["--models", RECIPE / "models.tsv", "--published", RECIPE / "published.tsv"]
    options += ["--out", tmp_path / "table.md"]
    command = [sys.executable, RECIPE / "table.py", tmp_path / "results", *options]
    result = run(*command, check=False, env={"PATH": os.environ["PATH"]})
    assert result.returncode == 1 and "has no results yet" in result.stdout
