"""These tests run recipes/ud_tagging as a user does, and check the arithmetic of its tables."""

import json
import os
import sys
from statistics import mean

import pytest

from fairseq_posattn.errors import InputError
from support import warm
from support.commands import ROOT, run, script

RECIPE = ROOT / "recipes/ud_tagging"
SMALL = ["--", "--encoder-embed-dim", "16", "--char-filters", "16", "--encoder-layers", "1"]


def module(name):
    return script(RECIPE / f"{name}.py")


def write_treebank(folder):
    """Write sentences of a name and a verb, some with an adverb, in files named as in UD."""
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
    command += [*SMALL, "--max-epoch", "3", "--curve-interval", "2"]
    first = run(*command, env=warm.variables())
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
    run(*command, env=warm.variables())
    # and a result of other options is not taken for one of these
    for options, difference in (
        (command[: command.index("--")], "training was '--encoder-embed-dim 16 --char-filters"),
        ([*command, "--dropout", "0"], "is now '... --dropout 0'"),
    ):
        other = run(*options, check=False, env=warm.variables())
        assert other.returncode == 1 and difference in other.stdout
        assert "name another folder with --work" in other.stdout
    assert {path: path.stat().st_mtime_ns for path in work.glob("runs/*/*")} == logs


@pytest.mark.long
def test_an_interrupted_run_goes_on(tmp_path):
    treebank, work = write_treebank(tmp_path / "UD_Toy-XX"), tmp_path / "work"
    command = [RECIPE / "run.sh", "--cpu", "--treebank", treebank, "--work", work]
    command += ["--model", "pe_add", "--column", "xpos", *SMALL, "--max-epoch", "2"]
    command += ["--save-interval-updates", "3"]  # of four
    run(*command, env=warm.variables())
    folder, result = work / "runs/Toy-XX.xpos.pe_add.1", work / "results/Toy-XX.xpos.pe_add.1.json"
    first = json.loads(result.read_text())
    (folder / "checkpoint_2_3.pt").replace(folder / "checkpoint_last.pt")  # as if it had been
    (folder / "trained").unlink()  # killed then
    result.unlink()
    run(*command, env=warm.variables())
    assert "(epoch 2 @ 3 updates)" in (folder / "train.log").read_text()
    again = json.loads(result.read_text())
    assert again["epochs"] == 2 and again["accuracy"] == first["accuracy"]


def test_data_of_other_options_are_not_taken(tmp_path):
    """Nor are those of another treebank; vectors that are not there are named first."""
    treebank, work = write_treebank(tmp_path / "UD_Toy-XX"), tmp_path / "work"
    (work / "data/Toy-XX").mkdir(parents=True)
    (work / "data/Toy-XX/tagging.json").touch()
    claim = ["--files", *(f"{s}={treebank}/xx_toy-ud-{s}.conllu" for s in ("train", "dev", "test"))]
    claim += ["--options", "column=upos", "words=50%", "version=1", "--made", tmp_path / "nothing"]
    made_from = ROOT / "recipes/made_from.py"
    run(sys.executable, made_from, work / "made_from/Toy-XX.json", *claim)
    (work / "results").mkdir()
    (work / "results/Toy-XX.conv2d.1.json").touch()  # nobody knows of what

    def refused(*options):
        command = [RECIPE / "run.sh", "--cpu", "--treebank", treebank, "--work", work]
        result = run(*command, *options, check=False, env=warm.variables())
        assert result.returncode == 1
        return result.stdout

    assert "no record says what this was made from" in refused()
    assert "/nonexistent.vec: there is no such file" in refused("--vectors", "/nonexistent.vec")
    (tmp_path / "vectors").touch()
    assert "words was '50%', is now '20000'" in refused("--vectors", tmp_path / "vectors")
    with open(treebank / "xx_toy-ud-dev.conllu", "a") as file:
        file.write("1\tAna\t_\tPROPN\t_\t_\t0\t_\t_\t_\n\n")
    assert "the file 'dev' has changed" in refused()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--treebank", "nowhere"], "nowhere is no folder"),
        (["--treebank", "."], "has 0 files with 'train'"),
        (["--treebank", ".", "--model", "conv3d"], "choose one of: san pe_con"),
        (["--treebank", ".", "--seed", "x"], "--seed x: expected a number"),
        (["--treebank"], "--treebank needs a value"),
        ([], "--treebank DIR"),
        (["--tree", "x"], "unknown option: --tree"),
    ],
)
def test_mistakes_are_named(tmp_path, options, message):
    work = [] if options == ["--treebank"] else ["--work", tmp_path / "work"]
    result = run(
        RECIPE / "run.sh", *work, *options, check=False, cwd=tmp_path, env=warm.variables()
    )
    assert result.returncode and message in result.stdout


@pytest.mark.long
def test_a_failed_training_is_told(tmp_path):
    treebank = write_treebank(tmp_path / "UD_Toy-XX")
    command = [RECIPE / "run.sh", "--treebank", treebank, "--work", tmp_path / "work", "--cpu"]
    result = run(
        *command, "--", "--encoder-attention", "nothing", check=False, env=warm.variables()
    )
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


def test_a_trial_is_no_seed_of_the_table(tmp_path):
    result = {"treebank": "T", "model": "conv", "accuracy": 90.0}
    for seed, training in ((1, ""), (2, None), (9, "--max-epoch 1")):
        about = result | {"seed": seed} | ({} if training is None else {"training": training})
        (tmp_path / f"T.conv.{seed}.json").write_text(json.dumps(about))
    with pytest.raises(
        InputError, match=r"T\.conv\.9\.json: the model was trained with '--max-epoch 1', but"
    ):
        module("table").read_results(tmp_path)
    (tmp_path / "T.conv.9.json").unlink()
    assert len(module("table").read_results(tmp_path)["T", "conv"]) == 2


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
    assert result.returncode == 1 and "there are no results yet" in result.stdout
