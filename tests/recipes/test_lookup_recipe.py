"""These tests run recipes/lookup as a user does, and check the arithmetic of its table."""

import json
import shutil
import sys

import pytest

from support import warm
from support.commands import ROOT, run, script

RECIPE = ROOT / "recipes/lookup"
ARCHITECTURES = ("positional_attention_s2s", "content_attention_s2s", "plain_s2s")
MODELS = ("positional", "content", "none")


evaluate = script(RECIPE / "evaluate.py")

GOLD = ("000 101", "111 110", "001 010 011 100", "010 011 100 101")
KINDS = ("held-out compositions", "held-out compositions", "longer", "longer")


def make_work(folder, decoded, gold=GOLD):
    """A folder as the recipe leaves it, with this output of each model."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    sources = [" ".join([target[:3], *["t1"] * target.count(" ")]) for target in gold]
    for name, lines in (("test.src", sources), ("test.tgt", gold), ("test.kinds", KINDS)):
        (folder / "raw" / name).write_text("".join(f"{line}\n" for line in lines))
    for model in MODELS:
        (folder / model).mkdir(exist_ok=True)
        (folder / model / "train.log").write_text("num. shared model params: 1,234 (num.)\n")
        lines = [f"S-{n}\tx\nH-{n}\t-0.5\t{text}\n" for n, text in enumerate(decoded)]
        (folder / model / "generate.log").write_text("".join(reversed(lines)))
    return folder


def test_accuracies_by_hand(tmp_path):
    # right; nothing; cut off after two words; a word too many, its first is wrong
    decoded = ["000 101", "", "001 010", "000 011 100 101 111"]
    found = evaluate.evaluate(make_work(tmp_path / "work", decoded))["content"]
    assert found["parameters"] == 1234 and found["architecture"] == "content_attention_s2s"
    assert found["accuracy"] == {
        "held-out compositions": {"sequences": 1 / 2, "words": 2 / 4},
        "3 tables": {"sequences": 0, "words": (2 + 3) / 8},
    }


def test_an_output_that_goes_on_is_no_right_sequence(tmp_path):
    decoded = [*GOLD[:3], GOLD[3] + " 000"]
    found = evaluate.evaluate(make_work(tmp_path / "work", decoded))["none"]
    assert found["accuracy"]["3 tables"] == {"sequences": 1 / 2, "words": 1}


def test_the_table_of_several_runs(tmp_path):
    runs = [make_work(tmp_path / "1", GOLD), make_work(tmp_path / "2", [*GOLD[:3], ""])]
    out = tmp_path / "results"
    printed = run(sys.executable, RECIPE / "evaluate.py", *runs, "--out", out).stdout
    table = (out / "lookup.md").read_text()
    assert table in printed and "mean (lowest–highest) of 2 runs" in table
    rows = [line for line in table.splitlines() if line.startswith("| `plain_s2s`")]
    assert rows[0].endswith("| 1,234 | 100.0 (100–100) | 75.0 (50–100) |")
    assert len(json.loads((out / "lookup.json").read_text())["runs"]) == 2
    assert (out / "lookup.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    work, out = make_work(tmp_path / "work", GOLD), tmp_path / "results"
    monkeypatch.setattr(sys, "argv", ["evaluate.py", str(work), "--out", str(out)])
    evaluate.main()
    assert "there is no figure: it needs matplotlib" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["lookup.json", "lookup.md"]


def refused(*arguments):
    result = run(*arguments, check=False)
    assert result.returncode != 0
    return result.stdout.strip().splitlines()[-1]


def test_what_the_evaluation_refuses(tmp_path):
    def message(*works):
        return refused(sys.executable, RECIPE / "evaluate.py", *works, "--out", tmp_path / "out")

    work = make_work(tmp_path / "work", GOLD)
    assert "this is no folder of the recipe" in message(tmp_path / "nothing")
    log = work / "none/generate.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[2:]))
    assert f"{log}: there are 3 of 4 outputs; delete it" in message(work)
    log.write_text("H-9\n")
    assert f"{log}:1: fairseq-generate writes no such line" in message(work)
    train = work / "none/train.log"
    train.write_bytes(b"num. \xff")
    log.write_text("".join(f"H-{n}\t-1\tx\n" for n in range(4)))
    assert f"{train}:1: the line is not UTF-8" in message(work)
    kinds = work / "raw/test.kinds"
    kinds.write_text("longer\n" * 3 + "lon\n")
    assert f"{kinds}:4: this recipe has no kind 'lon' for the line" in message(work)
    kinds.write_text("longer\n")
    assert "differ in their number of lines" in message(work)
    make_work(tmp_path / "work", GOLD)
    log.unlink()
    assert f"{log}: there is no such log; run recipes/lookup/run.sh" in message(work)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "one"], "lookup: --seed one: expected a whole number"),
        (["--updates", "0"], "lookup: --updates 0: expected at least 1"),
        (["--length", "3"], "RUNS=N trains N models at once, by default one for each core."),
    ],
)
def test_options_that_the_recipe_refuses(options, message):
    assert refused(RECIPE / "run.sh", *options) == message


@pytest.mark.long
def test_the_recipe_on_a_tiny_setting(tmp_path):
    work = tmp_path / "work"
    chosen = [RECIPE / "run.sh", "--seed", 2, "--updates", 3, "--sequences", 2, "--work", work]
    environment = warm.variables()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    elsewhere = run(*chosen, "--work", tmp_path / "mine", env=environment, check=False)
    assert elsewhere.returncode and "no record says what this was made from" in elsewhere.stdout
    printed = run(*chosen, env=environment, cwd="/").stdout
    (found,) = json.loads((work / "results/lookup.json").read_text())["runs"]
    assert list(found) == list(MODELS)
    for model, architecture in zip(MODELS, ARCHITECTURES, strict=True):
        assert found[model]["architecture"] == architecture and architecture in printed
        assert list(found[model]["accuracy"])[3:] == [f"{n} tables" for n in range(3, 10)]
    assert (work / "results/lookup.png").read_bytes().startswith(b"\x89PNG")
    # a run that was killed goes on: only what is missing is made again
    before = {model: (work / model / "train.log").read_text() for model in MODELS}
    shutil.rmtree(work / "results")
    (work / "none/generate.log").unlink()
    run(*chosen, env=environment)
    assert json.loads((work / "results/lookup.json").read_text())["runs"] == [found]
    assert all((work / m / "train.log").read_text() == before[m] for m in MODELS[:2])
    other = run(*chosen, "--seed", 3, env=environment, check=False)
    assert other.returncode and "seed was '2', is now '3'" in other.stdout
    assert "name another folder with --work, or remove this one" in other.stdout
