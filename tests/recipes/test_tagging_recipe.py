"""These tests run recipes/ud_tagging as a user does, and check the arithmetic of its tables."""

import json
from statistics import mean

import pytest

from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.scoring.statistics import welch
from support.commands import ROOT, script
from support.experiments import Experiment

RECIPE = ROOT / "recipes/ud_tagging"
SMALL = ["--", "--encoder-embed-dim", 16, "--char-filters", 16, "--encoder-layers", 1]
trial = script(RECIPE / "trial.py")


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


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Experiment:
    """Data of one small treebank."""
    folder = tmp_path_factory.mktemp("tagging")
    experiment = Experiment("ud_tagging", folder / "work")
    treebank = write_treebank(folder / "UD_Toy-XX")
    experiment.start("prepare", "--from", treebank)
    assert ": already done" in experiment.start("prepare", "--from", treebank).stdout
    return experiment


def results_of(experiment, model: str) -> list[dict]:
    paths = [folder / "result.json" for folder in experiment.runs(model)]
    return [json.loads(path.read_text()) for path in paths]


@pytest.mark.long
def test_tables_of_two_small_treebanks(tmp_path):
    for name in ("A", "B"):
        write_treebank(tmp_path / f"UD_Toy-{name}")
    (write_treebank(tmp_path / "UD_Toy-C") / "xx_toy-ud-dev.conllu").unlink()
    experiment = Experiment("ud_tagging", tmp_path / "work")
    printed = experiment.start("prepare", "--from", tmp_path).stdout
    assert "UD_Toy-C: this treebank is left out: it has no dev" in printed
    command = ["table", "--cpu", "--models", "pe_add", "conv2d", "--seeds", "1-2"]
    small = [*SMALL, "--max-epoch", 3, "--curve-interval", 2]
    printed = experiment.start(*command, *small).stdout
    found = results_of(experiment, "conv2d.Toy-A")
    assert [result["seed"] for result in found] == [1, 2]
    for result in found:
        assert 0 <= result["accuracy"] <= 100 and result["epochs"] == 3
        assert 1 <= result["best_epoch"] <= 3
    table = (experiment.work / "table.md").read_text()
    assert table in printed and "94.40" in table
    accuracies = [result["accuracy"] for result in found]
    assert f"| Toy-A | SAN+PE[add]+Conv2d | {mean(accuracies):.2f} ± " in table
    assert "p against SAN+PE[add]" in table and "with Holm's correction" in table
    assert (experiment.work / "curves.png").stat().st_size > 5000
    for chosen, other in (
        (["conv2d", "--corpora", "Toy-B"], "Toy-A"),
        (["--run", experiment.runs("conv2d.Toy-A")[1].name], "Toy-B"),
    ):
        command = ["evaluate", *chosen, "--baseline", "pe_add", "--cpu", *small]
        printed = experiment.start(*command).stdout
        assert printed.count("SAN+PE[add]+Conv2d |") == 2 and other not in printed


@pytest.mark.long
def test_data_of_another_treebank_are_made_anew(toy, tmp_path):
    """A run of the old data stays; vectors choose the models of PTB."""
    treebank, experiment = toy.work.parent / "UD_Toy-XX", toy
    dictionary = experiment.work / "data/Toy-XX/dict.word.txt"
    before = dictionary.read_text()
    with open(treebank / "xx_toy-ud-train.conllu", "a") as file:
        file.write("1\tBo\t_\tPROPN\t_\t_\t0\t_\t_\t_\n\n" * 3)
    (tmp_path / "vectors").write_text("Ana 1 2\n")
    prepare = ["prepare", "--from", treebank, "--", "--vectors"]
    missing = experiment.start(*prepare, "/nonexistent.vec", check=False)
    assert missing.returncode == 1
    assert "/nonexistent.vec: there is no such file" in missing.stdout
    experiment.start(*prepare, tmp_path / "vectors")
    assert dictionary.read_text() != before
    shown = experiment.start("train", "conv", "--cpu", "--dry-run").stdout
    assert experiment.start("train", "conv", "--dry-run", "--gpus", 1).stdout.count("nproc") == 0
    assert "--arch san_tagger_conv_ptb " in shown
    assert f"--word-vectors {tmp_path}/vectors --fixed-word-vectors " in shown


def test_published_treebanks_have_the_published_means():
    published = trial.read_published()
    assert len(published) == 47
    for row in read_recipe(str(RECIPE)).content.models:
        if row.published:
            of_47 = mean(figures[row.name] for figures in published.values())
            assert of_47 == pytest.approx(row.published["UD"]["accuracy"], abs=0.0051)


def test_means_and_deviations():
    row = Row(name="conv", published={"UD": {"accuracy": 94.21}})
    accuracies = {("conv", "A"): (90, 92), ("conv", "B"): (80, 84)}
    results = {pair: [{"accuracy": a} for a in found] for pair, found in accuracies.items()}
    table = trial.treebank_table([row], results, ["A", "B"], "conv")
    assert [str(cell) for cell in table.rows[0]] == ["A", "conv", "91.00 ± 1.41", "–"]
    assert trial.macro(results, ["A", "B"], "conv", "accuracy") == "86.50 ± 2.12"
    assert trial.macro(results, ["A", "C"], "conv", "accuracy") == "–"
    assert trial.macro(results, ["A", "B"], "conv", "oov_accuracy") == "–"
    (line,) = trial.macro_table([row], results, ["A", "B"]).rows
    assert line[:3] == ["conv", "86.50 ± 2.12", "94.21"]


def test_tests_over_seeds_are_corrected_together():
    """Two tests: the smaller p is doubled, the larger one stays (Holm)."""
    figures = {"t": {"base": [1.0, 2.0, 3.0], "x": [8.0, 9.0, 11.0], "y": [3.0, 4.0, 6.0]}}
    of_x, of_y = (welch(figures["t"]["base"], figures["t"][name]) for name in ("x", "y"))
    assert of_x < of_y and 2 * of_x > 0.001
    assert trial.p_values(figures, "base") == {
        ("t", "x"): f"{2 * of_x:.3f}",
        ("t", "y"): f"{of_y:.3f}",
    }
    assert trial.p_values({"t": {"base": [1.0], "x": [2.0]}}, "base") == {}


def test_a_run_that_has_stopped_keeps_its_last_accuracy():
    curves = [
        [{"updates": 100, "accuracy": 50.0}, {"updates": 200, "accuracy": 70.0}],
        [{"updates": u, "accuracy": a} for u, a in ((100, 60.0), (200, 80.0), (300, 90.0))],
    ]
    assert trial.mean_curve(curves) == ([100, 200, 300], [55.0, 75.0, 80.0])
