"""These tests check the language models' recipe: its arithmetic, its preparation, and real runs."""

import importlib
import json
import lzma
import re
import sys
from pathlib import Path

import pytest

from fairseq_posattn.experiments.recipe import read_recipe
from support.commands import PLUGIN, ROOT, run, script
from support.experiments import Experiment, in_process
from support.in_process import call
from support.lm_corpus import make_ptb, make_wikitext

RECIPE = ROOT / "recipes/lm"
sys.path.append(str(RECIPE))
trial = script(RECIPE / "trial.py")
LM = ["--task", "language_modeling", "--sample-break-mode", "eos", "--tokens-per-sample", "36"]
LM += ["--shorten-method", "truncate", "--user-dir", PLUGIN]
TINY = ["--decoder-embed-dim", "16", "--cpu", "--num-workers", "0", "--seed", "1"]
PUBLISHED = ["--criterion", "summed_cross_entropy", "--optimizer", "sgd", "--lr", "30"]
PUBLISHED += ["--clip-norm", "0.25", "--weight-decay", "1.2e-6"]
PUBLISHED += ["--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", "0.5", "--lr-patience", "5"]


# sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A dog . A cat .", ["A dog .", "A cat ."]),
        ("A dog ! Why ? Yes", ["A dog !", "Why ?", "Yes"]),
        ("Mr. Smith lives in the U.S. now .", ["Mr. Smith lives in the U.S. now ."]),
        ("It grew by 0 @.@ 7 kg . Then 5 .", ["It grew by 0 @.@ 7 kg .", "Then 5 ."]),
        ('He said " Go . " Then he left .', ['He said " Go . "', "Then he left ."]),
        ('He left . " Go " , she said .', ["He left .", '" Go " , she said .']),
        ("( See there . ) It ends .", ["( See there . )", "It ends ."]),
        ('" What ? " asked he .', ['" What ? " asked he .']),
        ("Well . . . no . Yes .", ["Well . . . no .", "Yes ."]),
        (" = = Life cycle = = ", ["= = Life cycle = ="]),
        ("", []),
    ],
)
def test_sentences_by_rules(text, sentences):
    from sentences import by_rules

    assert [" ".join(words) for words in by_rules(text.split())] == sentences


def test_punkt_must_be_there_to_be_asked_for():
    from prepare import InputError, punkt_is_there, splitter

    assert splitter("wikitext-2", "auto")[0] == ("punkt" if punkt_is_there() else "rules")
    if not punkt_is_there():
        with pytest.raises(InputError, match="--splitter punkt: nltk or its data are missing"):
            splitter("wikitext-2", "punkt")


# preparation


def prepare(*arguments, **kwargs):
    return run(sys.executable, RECIPE / "prepare.py", *arguments, **kwargs)


def test_a_part_for_a_trial(tmp_path):
    make_ptb(tmp_path / "raw")
    plain = tmp_path / "raw/ptb.test.txt"
    (tmp_path / "raw/ptb.test.txt.xz").write_bytes(lzma.compress(plain.read_bytes()))
    plain.unlink()
    options = ["--corpus", "ptb", "--data", tmp_path / "raw", "--out", tmp_path / "text"]
    prepare(*options, "--words", 100)
    counts = json.loads((tmp_path / "text/counts.json").read_text())
    assert 100 <= counts["train"]["words"] < 120 and 10 <= counts["test"]["words"] < 30


def test_a_corpus_that_is_not_there(tmp_path):
    result = prepare(
        *("--corpus", "ptb", "--data", tmp_path, "--out", tmp_path / "text"), check=False
    )
    assert result.returncode == 1 and "no ptb.train.txt" in result.stdout
    assert "Traceback" not in result.stdout and not (tmp_path / "text").exists()


# perplexity


def test_the_table_stands_beside_the_published_one():
    row = next(r for r in read_recipe(str(RECIPE)).content.models)
    figures = {"per_word": 90.128, "as_published": 70.5}
    result = {"parameters": 7863446, "valid": figures, "test": figures}
    table = trial.table(
        [row], {("lstm", "ptb"): [result], ("lstm", "ptb.9_words"): [result]}, "ptb"
    )
    shown = " | ".join(map(str, table.rows[0]))
    assert shown == "lstm | 7,863,446 | 7.86 M | 90.13 | 70.50 | 66.77 | 90.13 | 70.50 | 64.96"
    part = trial.table([row], {("lstm", "ptb.9_words"): [result]}, "ptb.9_words")
    assert str(part.rows[0][-1]) == "–"


# real runs


def prepared_lm(folder: Path, *options) -> Experiment:
    make_wikitext(folder / "raw")
    experiment = Experiment("lm", folder / "work")
    experiment.start("prepare", "--from", folder / "raw", *options)
    return experiment


@pytest.mark.parametrize(
    ("model", "arch", "batch", "lr_patience"),
    [
        ("positional", "positional_attentive_lm", 32, 5),
        ("attentive", "attentive_lm", 32, 6),
        ("lstm", "lstm_lm_tied", 20, 5),
    ],
)
def test_the_recipe_shows_its_commands(model, arch, batch, lr_patience, tmp_path):
    """The settings are those of the authors' program."""

    def shown(corpus, *options):
        only = ["--models", model, "--corpora", corpus, "--dry-run", "--work", tmp_path / "work"]
        return in_process("table", "lm", *only, *options)[1]

    wikitext = shown("wikitext-2.9_words", "--gpus", 2, "--seeds", "3-3")
    ptb = shown("ptb", "--cpu")
    assert f"--batch-size {batch // 2} " in wikitext and "--nproc_per_node 2" in wikitext
    assert "16" not in re.findall(r"--(?:bf|fp)(16)", wikitext)
    assert ("attention_maps.py" in ptb) == (model != "lstm")
    for printed, epochs, dropouts in (
        (wikitext, 750 if model == "lstm" else 500, ("0.5", "0.2")),
        (ptb, 500, ("0.4", "0.25") if model == "lstm" else ("0.5", "0.2")),
    ):
        assert f"--arch {arch} " in printed and f"--lr-patience {lr_patience} " in printed
        for name, value in zip(("decoder-dropout-in", "dropout"), dropouts, strict=True):
            assert f"--{name} {value} " in printed
        assert "--decoder-dropout-out 0.5 " in printed
        assert "--task language_modeling_in_order " in printed
        assert f"--max-epoch {epochs} --patience 25 " in printed
        assert "--curriculum 1000 " in printed
    assert not (tmp_path / "work").exists()


@pytest.mark.long
def test_the_recipe_from_text_to_table(tmp_path):
    experiment = prepared_lm(tmp_path)
    work = experiment.work
    small = ["--cpu", "--", "--max-epoch", 2, "--decoder-embed-dim", 16]
    printed = experiment.start("table", "--models", "positional", "--examples", 1, *small).stdout
    assert "| positional | " in printed and "Perplexity on wikitext-2:" in printed
    (folder,) = experiment.runs("positional.wikitext-2")
    assert (folder / "maps/test.2.png").read_bytes().startswith(b"\x89PNG")  # 1: blank
    found = json.loads((folder / "result.json").read_text())
    # every word of valid is predicted but what lies beyond the 36th
    text = work / "text/wikitext-2/valid.txt"
    lengths = [len(line.split()) + 1 for line in text.read_text().splitlines()]
    assert found["valid"]["words"] == sum(min(length, 36) for length in lengths)
    assert found["valid"]["per_word"] == pytest.approx(
        evaluated(work / "data/wikitext-2", folder / "checkpoint_best.pt"), rel=1e-3
    )
    experiment.start("prepare", "--from", tmp_path / "raw", "--", "--words", 50)
    assert (work / "data/wikitext-2.50_words/dict.txt").exists()


def evaluated(data: Path, checkpoint: Path) -> float:
    """Return the perplexity that fairseq-eval-lm prints for valid."""
    options = ["--gen-subset", "valid", "--batch-size", 7, "--cpu", "--num-workers", 0]
    found = call("eval_lm", data, "--path", checkpoint, *options, *LM)
    return float(re.search(r"Perplexity: ([\d.]+)", found.output)[1])


@pytest.fixture(scope="module")
def tiny_data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    make_ptb(folder / "raw")
    importlib.import_module("prepare").prepare("ptb", folder / "raw", folder / "text", "auto", None)
    texts = [part for s in ("train", "valid") for part in (f"--{s}pref", folder / f"text/{s}.txt")]
    options = ["--only-source", "--padding-factor", 1, "--destdir", folder / "data"]
    call("preprocess", *texts, *options)
    return folder / "data"


def train(data: Path, save_dir: Path, arch: str, *options) -> str:
    return call(
        "train",
        *(data, "--arch", arch, *LM, *TINY, *PUBLISHED, "--batch-size", 20),
        *("--required-batch-size-multiple", 1, "--log-format", "simple", "--log-interval", 1),
        *("--save-dir", save_dir, "--no-epoch-checkpoints", *options),
    ).output


@pytest.mark.long(but=["positional_attentive_lm"])
@pytest.mark.parametrize("arch", ["positional_attentive_lm", "attentive_lm", "lstm_lm_tied"])
def test_training_evaluation_and_sampling(arch, tiny_data, tmp_path):
    trained = train(tiny_data, tmp_path, arch, "--max-epoch", 2)
    assert len(re.findall(r"valid on 'valid' subset", trained)) == 2
    reported = float(re.findall(r"subset \| loss ([\d.]+)", trained)[-1])
    checkpoint = tmp_path / "checkpoint_last.pt"
    assert evaluated(tiny_data, checkpoint) == pytest.approx(2**reported, rel=1e-2)
    sampled = call(
        "interactive",
        *(tiny_data, "--path", checkpoint, "--cpu", "--sampling"),
        *("--beam", 2, "--nbest", 2, "--max-len-b", 10, "--seed", 1, *LM),
        input="The dog\nThe\n",
    ).output
    samples = re.findall(r"^H-(\d)\t\S+\t(.*)$", sampled, re.M)
    assert [number for number, _ in samples] == ["0", "0", "1", "1"]
    assert all(text.startswith("The dog") for number, text in samples if number == "0")


@pytest.mark.parametrize("curriculum", [0, 2])
def test_sentences_in_the_order_of_the_corpus(curriculum, tiny_data, tmp_path, monkeypatch):
    """Without --curriculum fairseq shuffles the batches of an epoch, as they are."""
    from fairseq_posattn.language_models.model import (
        LanguageModelingInOrderTask as Task,
    )

    seen, step = [], Task.train_step

    def recorded(self, sample, *arguments, **options):
        seen.append(sample["id"].tolist())
        return step(self, sample, *arguments, **options)

    monkeypatch.setattr(Task, "train_step", recorded)
    options = ["--task", "language_modeling_in_order", "--curriculum", curriculum]
    train(tiny_data, tmp_path, "attentive_lm", "--max-epoch", 2, "--batch-size", 7, *options)
    in_order = [list(range(first, min(first + 7, 60))) for first in range(0, 60, 7)]
    for epoch in (seen[:9], seen[9:]):
        assert sorted(epoch) == in_order
        assert (epoch == in_order) == (curriculum == 2)
    assert evaluated(tiny_data, tmp_path / "checkpoint_last.pt") > 1


def test_batches_of_one_update_give_the_gradient_of_their_sum(tiny_data, tmp_path):
    still = ["--lr", 0, "--max-update", 1, "--decoder-dropout-in", 0, "--dropout", 0]
    still += ["--decoder-dropout-out", 0, "--clip-norm", 0, "--curriculum", 1]
    norms = []
    for batch, together in ((60, 1), (20, 3)):
        options = ["--batch-size", batch, "--update-freq", together, *still]
        printed = train(tiny_data, tmp_path / str(batch), "attentive_lm", *options)
        norms.append(float(re.search(r"gnorm=([\d.]+)", printed)[1]))
    assert norms[0] == pytest.approx(norms[1], rel=1e-3) and norms[0] > 5
