"""These tests run recipes/lookup as a user does, and check the arithmetic of its table."""

import json
import shutil

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_content import Row
from support.commands import ROOT, script
from support.experiments import Experiment

RECIPE = ROOT / "recipes/lookup"
ARCHITECTURES = ("positional_attention_s2s", "content_attention_s2s", "plain_s2s")
MODELS = ("positional", "content", "none")

trial = script(RECIPE / "trial.py")

GOLD = ("000 101", "111 110", "001 010 011 100", "010 011 100 101")
KINDS = ("held-out compositions", "held-out compositions", "longer", "longer")


def measured(folder, decoded, gold=GOLD):
    """Return the figures of a model with this output, from files as the recipe leaves them."""
    folder.mkdir(exist_ok=True)
    sources = [" ".join([target[:3], *["t1"] * target.count(" ")]) for target in gold]
    for name, lines in (("test.src", sources), ("test.tgt", gold), ("test.kinds", KINDS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "train.log").write_text("num. shared model params: 1,234 (num.)\n")
    lines = [f"S-{n}\tx\nH-{n}\t-0.5\t{text}\n" for n, text in enumerate(decoded)]
    (folder / "generate.log").write_text("".join(reversed(lines)))
    return trial.measured(folder, folder)


def test_accuracies_by_hand(tmp_path):
    # right; nothing; cut off after two words; a word too many, its first is wrong
    found = measured(tmp_path, ["000 101", "", "001 010", "000 011 100 101 111"])
    assert found["parameters"] == 1234
    assert found["accuracy"] == {
        "held-out compositions": {"sequences": 1 / 2, "words": 2 / 4},
        "3 tables": {"sequences": 0, "words": (2 + 3) / 8},
    }


def test_an_output_that_goes_on_is_no_right_sequence(tmp_path):
    found = measured(tmp_path, [*GOLD[:3], GOLD[3] + " 000"])
    assert found["accuracy"]["3 tables"] == {"sequences": 1 / 2, "words": 1}


def test_the_table_of_several_seeds(tmp_path):
    row = Row(name="none", training={"arch": "plain_s2s"})
    runs = [measured(tmp_path / "1", GOLD), measured(tmp_path / "2", [*GOLD[:3], ""])]
    table = trial.table("sequences", [row], {("none", "tables"): runs})
    assert table.title == "Accuracy in % by sequence, mean (lowest to highest) of the seeds"
    assert list(table.head[2:]) == ["held-out compositions", "3 tables"]
    shown = [str(cell) for cell in table.rows[0]]
    assert shown == ["`plain_s2s`", "1,234", "100.0 (100.0 to 100.0)", "75.0 (50.0 to 100.0)"]
    trial.draw([row], {("none", "tables"): runs}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_evaluation_refuses(tmp_path):
    measured(tmp_path, GOLD)

    def refused(match):
        with pytest.raises(InputError, match=match):
            trial.measured(tmp_path, tmp_path)

    log = tmp_path / "generate.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[2:]))
    refused(f"{log} has 3 of 4 outputs; delete it")
    log.write_text("H-9\n")
    refused(f"{log}:1: 'H-9' is not valid output of fairseq-generate")
    log.write_text("".join(f"H-{n}\t-1\tx\n" for n in range(4)))
    kinds = tmp_path / "test.kinds"
    kinds.write_text("longer\n" * 3 + "lon\n")
    refused(f"{kinds}:4: the kind 'lon' of the source")
    kinds.write_text("longer\n")
    refused("has 1 lines, but .* has 4|has 4 lines, but .* has 1")


@pytest.mark.long
def test_the_recipe_on_a_tiny_setting(tmp_path):
    """A run that was killed goes on: only what is missing is made again."""
    experiment = Experiment("lookup", tmp_path / "work")
    chosen = ["table", "--cpu", "--seed", 2, "--updates", 3]
    printed = experiment.start(*chosen, cwd="/").stdout
    work = experiment.work
    for model, architecture in zip(MODELS, ARCHITECTURES, strict=True):
        (folder,) = experiment.runs(f"{model}.tables")
        found = json.loads((folder / "result.json").read_text())
        assert (found["model"], found["corpus"], found["seed"]) == (model, "tables", 2)
        assert f"`{architecture}`" in printed
        assert list(found["accuracy"])[3:] == [f"{n} tables" for n in range(3, 10)]
    assert (work / "lookup.png").read_bytes().startswith(b"\x89PNG")
    assert (work / "table.md").read_text() in printed
    assert (work / "table.csv").exists() and (work / "table.tex").exists()
    before = {path: path.read_bytes() for path in work.glob("runs/*/*.pt")}
    table = (work / "table.csv").read_bytes()
    (folder / "result.json").unlink()
    (work / "table.csv").unlink()
    experiment.start(*chosen)
    assert (work / "table.csv").read_bytes() == table
    assert {path: path.read_bytes() for path in work.glob("runs/*/*.pt")} == before
    # other tables are other data, and another run
    experiment.start("train", "none", "--cpu", "--seed", 3, "--updates", 3)
    assert len(experiment.runs("none.tables")) == 2
    second = (work / "raw.seed3/test.tgt").read_text()
    assert second != (work / "raw.seed2/test.tgt").read_text()
    shutil.rmtree(work / "runs")
    result = experiment.start("evaluate", "none", "--cpu", "--seed", 2, check=False)
    assert result.returncode == 1 and "training is not complete" in result.stdout
