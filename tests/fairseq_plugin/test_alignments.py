"""Alignments in the data teach where `tree_walk` looks, by fairseq's own criterion."""

import re
import shutil

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment as Criterion,
)
from fairseq.data import indexed_dataset

from fairseq_posattn.inspection.attention import decoder_attention
from support.in_process import batch, build, train

ARTICLES = {"la": "ha", "un": "wi", "tse": "hoy"}  # of the toy language, and their translations


def aligned(task, source, target):
    """Return place in the source and in the target of each article that stands once in both."""
    places = []
    for word, translation in ARTICLES.items():
        ends = task.source_dictionary.index(word), task.target_dictionary.index(translation)
        found = [
            (pieces == end).nonzero()[:, 0].tolist()
            for pieces, end in zip((source, target), ends, strict=True)
        ]
        if [len(one) for one in found] == [1, 1]:
            places.append((*found[0], *found[1]))
    return places


@pytest.fixture(scope="module")
def data(toy_data, tmp_path_factory):
    """The toy corpus with alignments of its articles, stored as fairseq-preprocess does."""
    folder = shutil.copytree(toy_data, tmp_path_factory.mktemp("aligned") / "data")
    task = build(toy_data).task
    task.load_dataset("train")
    pairs, start = task.dataset("train"), folder / "train.align.src-tgt"
    builder = indexed_dataset.make_builder(f"{start}.bin", "mmap")
    for k in range(len(pairs)):
        places = aligned(task, pairs[k]["source"], pairs[k]["target"])
        builder.add_item(torch.IntTensor(places).flatten())
    builder.finalize(f"{start}.idx")
    return folder


OPTIONS = (
    *("--cross-attention", "tree_walk", "--decoder-layers", "2", "--load-alignments"),
    *("--criterion", "label_smoothed_cross_entropy_with_alignment"),
)


@pytest.mark.long(ci=True)
def test_alignments_teach_where_it_looks(data, tmp_path):
    """After the alignment loss fell, head 0 looks at the article of which the last piece was made,
    in the step that has this piece as its input."""
    chosen = ("--lr", "1e-2", "--max-update", "60", "--alignment-lambda", "1")
    log = train(data, tmp_path, *OPTIONS, *chosen, "--disable-validation").output
    losses = [
        float(loss) for loss in re.findall(r"\balignment_loss[\"']?[=:] ?[\"']?([\d.]+)", log)
    ]
    assert len(losses) >= 60 and np.mean(losses[50:60]) < np.mean(losses[:5]) / 3
    path = str(tmp_path / "checkpoint_last.pt")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path])
    task.load_dataset("valid")
    sample = batch(task, "valid", range(30))  # with padding before the sources
    pad, found = task.source_dictionary.pad(), []
    with torch.no_grad():
        fields = sample["net_input"]
        attention = model.eval()(**fields)[1]["attn"][0]
    assert attention.shape == (*sample["target"].shape, fields["src_tokens"].size(1))
    for row, (source, target) in enumerate(
        zip(fields["src_tokens"], sample["target"], strict=True)
    ):
        found += [attention[row, t].argmax() == s for s, t in aligned(task, source, target)]
    assert pad in fields["src_tokens"][:, 0] and len(found) > 20 and np.mean(found) > 0.9
    one = batch(task, "valid", [0])
    _, crossing = decoder_attention(model, one, one["target"][0])
    source, target = one["net_input"]["src_tokens"][0], one["target"][0]
    places = aligned(task, source, target)
    assert places and all(crossing[:, 0, t + 1].mean(0).argmax() == s for s, t in places)


def test_weight_of_alignment_loss_decreases_to_zero(data, tmp_path, monkeypatch):
    weights, compute = [], Criterion.compute_alignment_loss

    def observed(criterion, *inputs):
        weights.append(criterion.alignment_lambda)
        return compute(criterion, *inputs)

    monkeypatch.setattr(Criterion, "compute_alignment_loss", observed)
    chosen = ("--alignment-updates", "4", "--alignment-lambda", "2", "--max-update", "6")
    train(data, tmp_path, *OPTIONS, *chosen, "--disable-validation")
    assert weights == [2, 1.5, 1, 0.5, 0, 0]


def test_weight_without_alignment_loss(data, tmp_path):
    refused = train(data, tmp_path, "--alignment-updates", "4", check=False)
    assert "add these options, or omit it" in str(refused.error)
