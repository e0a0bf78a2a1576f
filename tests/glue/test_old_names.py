"""Checkpoints of version 0.1.0 load, translate, tag and train on as they did."""

import copy
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_posattn.cli.average import average
from fairseq_posattn.cli.tag import TextTagger
from fairseq_posattn.glue.patches.old_names import new_specification, renamed
from fairseq_posattn.trees.conllu import read_conllu
from support.commands import ROOT, TINY
from support.in_process import call, hypotheses_and_scores

FIXTURES = ROOT / "tests/fixtures/version_0_1_0"
COMMON = ("--user-dir", ROOT / "fairseq_posattn", "--cpu", "--num-workers", 0)
TRANSLATING = (*COMMON, "-s", "src", "-t", "tgt", "--beam", 2, "--batch-size", 4)


def assert_as_before(output: str, recorded: Path) -> None:
    """The same translations, with scores that agree to six digits; fairseq 0.12.2 leaves no
    sentence out where the recorded run did."""
    found = hypotheses_and_scores(output)
    expected = hypotheses_and_scores(recorded.read_text())
    assert expected.keys() <= found.keys()
    assert {n: found[n][0] for n in expected} == {n: text for n, (text, _) in expected.items()}
    for number, (_, score) in expected.items():
        assert float(found[number][1]) == pytest.approx(float(score), rel=1e-6)


def test_translation():
    options = (*TRANSLATING, "--task", "structured_translation")
    path = FIXTURES / "translation.pt"
    found = call("generate", FIXTURES / "data", *options, "--path", path)
    assert_as_before(found.output, FIXTURES / "translation.txt")


def test_attention_of_lstm_states():
    options = (*TRANSLATING, "--task", "translation", "--max-len-a", 0, "--max-len-b", 8)
    found = call("generate", FIXTURES / "data", *options, "--path", FIXTURES / "s2s.pt")
    assert_as_before(found.output, FIXTURES / "s2s.txt")


def test_tagger():
    tagger = TextTagger(str(FIXTURES / "tagger.pt"), str(FIXTURES / "tagging_data"), cpu=True)
    sentences = [sentence.words for sentence in read_conllu(str(FIXTURES / "test.conllu"))]
    rows = [line.split("\t") for line in (FIXTURES / "tagger.conllu").read_text().splitlines()]
    expected = [row[3] for row in rows if len(row) == 10]
    assert [tag for tags in tagger.tags(sentences) for tag in tags] == expected


def test_language_model():
    options = ("--task", "language_modeling", "--sample-break-mode", "eos", "--batch-size", 20)
    options += ("--tokens-per-sample", 36, "--shorten-method", "truncate")
    options += ("--valid-subset", "test", "--log-format", "simple")
    options += ("--required-batch-size-multiple", 1, "--path", FIXTURES / "lm.pt")
    found = call("validate", FIXTURES / "lm_data", *COMMON, *options)
    assert "| loss 5.667 |" in found.output


def test_a_training_goes_on(tmp_path):
    """It goes on with the parameters, the optimizer and the count of updates of the old one."""
    shutil.copy(FIXTURES / "translation.pt", tmp_path / "checkpoint_last.pt")
    sizes = [size if size not in ("32", "64", "4") else HALVED[size] for size in TINY]
    attention = "direct_relative(init=glorot) + tree_relative + convolved_2d(init=glorot_normal)@1"
    found = call(
        "train",
        FIXTURES / "data",
        *(*COMMON, "-s", "src", "-t", "tgt", "--task", "structured_translation"),
        *("--arch", "posattn_transformer", *sizes, "--share-all-embeddings"),
        *("--max-source-positions", 60, "--max-target-positions", 60),
        *("--encoder-positions", "sequence + tree_depth", "--encoder-attention", attention),
        *("--optimizer", "adam", "--lr", 5e-3, "--max-tokens", 1000, "--seed", 1),
        *("--train-subset", "test", "--valid-subset", "test", "--reset-dataloader"),
        *("--max-update", 62, "--no-epoch-checkpoints", "--save-dir", tmp_path),
    )
    assert "@ 60 updates" in found.output
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    assert state["optimizer_history"][-1]["num_updates"] == 62
    assert "start=" not in state["cfg"]["model"]["encoder_attention"]


HALVED = {"32": "16", "64": "32", "4": "2"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("convolved_1d(start=glorot, t=0)", "convolved_1d(init=glorot_normal, t=0)"),
        ("convolved_2d(start=identity)", "convolved_2d(init=identity)"),
        ("convolved_2d (start = glorot)", "convolved_2d (init=glorot_normal)"),
        (
            "direct_relative(t=0, start=glorot)@0 + convolved_2d(start=glorot)",
            "direct_relative(t=0, init=glorot)@0 + convolved_2d(init=glorot_normal)",
        ),
        ("relative(max=16)", "relative(max=16)"),
    ],
)
def test_specifications(old, new):
    assert new_specification(old) == new


@pytest.mark.parametrize("kind", [OmegaConf.create, lambda options: Namespace(**options)])
def test_kinds_of_options(kind):
    """fairseq hands over a mapping or a namespace, under `cfg` or under `args`."""
    old, new = "direct_absolute(start=zeros)", "direct_absolute(init=zeros)"
    for state in (
        {"cfg": {"model": kind({"encoder_attention": old})}, "args": None},
        {"args": kind({"encoder_attention": old})},
    ):
        loaded = renamed(lambda state=state: state)()
        options = loaded["cfg"]["model"] if "cfg" in loaded else loaded["args"]
        assert options.encoder_attention == new


def test_an_average_of_old_and_new_names(tmp_path):
    state = torch.load(FIXTURES / "s2s.pt", weights_only=False)
    torch.save(renamed(lambda: copy.deepcopy(state))(), tmp_path / "new.pt")
    mean = average([FIXTURES / "s2s.pt", tmp_path / "new.pt"])["model"]
    assert len(mean) == len(state["model"])
    old = state["model"]["decoder.attention.ask.weight"]
    assert torch.equal(mean["decoder.attention.query_proj.weight"], old)


def test_averages_of_a_training_are_renamed():
    state = {"extra_state": {"ema": {"decoder.attention.tell.weight": torch.ones(1)}}}
    assert list(renamed(lambda: state)()["extra_state"]["ema"]) == [
        "decoder.attention.key_proj.weight"
    ]


def test_other_checkpoints_stay_as_they_are():
    state = {"cfg": None, "args": None, "model": {"encoder.ask.weight": torch.ones(1)}}
    assert list(renamed(lambda: state)()["model"]) == ["encoder.ask.weight"]
    assert renamed(lambda: {"extra": 1})() == {"extra": 1}
