"""These trainings are of every kind of model, without dropout, and each takes some seconds."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq_cli import train as fairseq_train

from fairseq_posattn.tagging.dataset import TaggingData, binarize
from support.commands import FULL_TREE, PLUGIN, TINY
from support.in_process import Result, call

TRANSLATION = [*TINY, "-s", "src", "-t", "tgt", "--optimizer", "adam", "--lr", "1e-3"]
TRANSLATION += ["--max-tokens", "2000"]
KINDS = {
    "tree": [
        *("translation", *TRANSLATION, "--arch", "posattn_transformer", *FULL_TREE),
        *("--task", "structured_translation"),
    ],
    "stock": ["translation", *TRANSLATION, "--arch", "transformer", "--task", "translation"],
    "tagger": [
        *("tagging", "--task", "tagging", "--arch", "san_tagger_conv2d", "--criterion", "tagging"),
        *("--encoder-embed-dim", "8", "--char-embed-dim", "4", "--char-filters", "8"),
        *("--encoder-layers", "2", "--encoder-attention-heads", "2", "--batch-size", "32"),
        *("--optimizer", "rmsprop", "--lr", "0.001"),
    ],
    "lm": [
        *("lm", "--task", "language_modeling", "--arch", "positional_attentive_lm"),
        *("--sample-break-mode", "eos", "--tokens-per-sample", "36", "--decoder-embed-dim", "16"),
        *("--shorten-method", "truncate", "--decoder-dropout-in", "0", "--decoder-dropout-out"),
        *("0", "--criterion", "summed_cross_entropy", "--optimizer", "sgd", "--lr", "5"),
        *("--clip-norm", "0.25", "--weight-decay", "1.2e-6", "--batch-size", "32"),
    ],
}


def make_corpora(toy: Path, folder: Path) -> None:
    """Make data of all kinds from the texts of the toy corpus."""
    folder.mkdir()
    (folder / "translation").symlink_to(toy / "data")
    trees = {split: str(toy / f"raw/{split}.src.conllu") for split in ("train", "dev")}
    tagging = str(folder / "tagging")
    binarize(TaggingData(train=trees["train"], valid=trees["dev"], destdir=tagging))
    texts = ["--trainpref", toy / "raw/train.tgt", "--validpref", toy / "raw/dev.tgt"]
    call("preprocess", "--only-source", *texts, "--destdir", folder / "lm")


def training(kind: str, corpora: Path, save_dir: Path, *options) -> list:
    """The arguments of fairseq-train; later options win over earlier ones."""
    data, *of_kind = KINDS[kind]
    return [
        *(corpora / data, "--user-dir", PLUGIN, *of_kind, "--dropout", "0", "--seed", "1"),
        *("--cpu", "--num-workers", "0", "--no-epoch-checkpoints", "--save-dir", save_dir),
        *("--log-format", "simple", "--log-interval", "1", *options),
    ]


def train(kind: str, corpora: Path, save_dir: Path, *options, **kwargs) -> Result:
    """Train in this process, as if it were a new one: fairseq keeps the best results in it."""
    for function in (fairseq_train.should_stop_early, checkpoint_utils.save_checkpoint):
        vars(function).clear()
    return call("train", *training(kind, corpora, save_dir, *options), **kwargs)


def assert_same_model(left: Path, right: Path) -> None:
    """Two checkpoints have the same parameters, bit by bit."""
    one, other = (torch.load(path, weights_only=False)["model"] for path in (left, right))
    assert one.keys() == other.keys()
    for name, parameter in one.items():
        assert torch.equal(parameter, other[name]), name
