"""Mechanisms work in fairseq's own programs: training, checkpoints, weights, ones of a user."""

import re

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_posattn.core.attention import MECHANISMS
from support.in_process import batch, build, generate, losses_of_updates, train

TABLES = ("--max-source-positions", "128")  # of t x t numbers, t the longest input
VARIANTS = ["window(across=3)", "directional(strict=true)", "direct_relative(symmetric=true)"]
# An encoder has no brackets of a target; tests of decoders run those that read them.
EVERY = [name for name in sorted(MECHANISMS) if not MECHANISMS[name].reads_brackets] + VARIANTS
FREE = [name for name in EVERY if not getattr(MECHANISMS.get(name), "needs_tree", False)]


@pytest.fixture
def data_for(request, toy_data):
    """Return a function that finds data which a mechanism can read."""

    def find(attention):
        if getattr(MECHANISMS.get(attention), "needs_labels", ()):
            return request.getfixturevalue("labelled_data")
        return toy_data

    return find


@pytest.mark.long(but=["gaussian", "parent_scaled", "window"])
@pytest.mark.parametrize("attention", EVERY)
def test_training_lowers_the_loss(attention, data_for, tmp_path):
    chosen = ["--encoder-attention", attention, *TABLES, "--max-update", "12", "--lr", "5e-3"]
    if attention == "tree_supervised":
        chosen += ["--criterion", "tree_supervised_cross_entropy"]
    data = data_for(attention)
    output = train(data, tmp_path, *chosen, "--disable-validation", "--no-save").output
    losses = [float(loss) for loss, _ in losses_of_updates(output)]
    assert len(losses) == 12
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.long(but=["relative", "cnn"])
@pytest.mark.parametrize("attention", FREE)
def test_without_trees_under_the_plain_task(attention, toy_data):
    """The data are stock data, whose batches have no trees."""
    plain = ("--task", "translation", "--encoder-attention", attention, *TABLES)
    task, model, _ = build(toy_data, *plain)
    sample = batch(task)["net_input"]
    assert "source_tree" not in sample
    if attention == "tree_supervised":  # it needs no trees to translate, but it does to learn
        model.eval()
    assert torch.isfinite(model(**sample)[0]).all()


@pytest.mark.long(ci=True)
def test_training_and_translating_under_the_plain_task(toy_data, tmp_path):
    plain = ("--task", "translation", "--encoder-attention", "window(across=3)@0 + relative")
    train(toy_data, tmp_path, *plain)
    last = tmp_path / "checkpoint_last.pt"
    output = generate(toy_data, last, "--task", "translation", "--batch-size", "20").output
    assert output.count("\nH-") > 50  # fairseq-fixed's task drops the last ones


TUNED = {
    "encoder": ("--encoder-attention", "convolved_2d(init=identity) + gaussian"),
    "cross": ("--cross-attention", "window(size=5, across=3) + gaussian + temperature"),
    "shared": ("--encoder-attention", "t5_bias", "--decoder-attention", "t5_bias(buckets=8)"),
}


@pytest.mark.long(but=["cross", "shared"])
@pytest.mark.parametrize("side", TUNED)
def test_fine_tuning_from_a_stock_checkpoint(side, stock_model, toy_data, tmp_path):
    """What was added starts anew, all else is taken over."""
    chosen = (*TUNED[side], "--finetune-from-model", stock_model)
    result = train(toy_data, tmp_path, *chosen, "--lr", "1e-30", "--max-update", "1")
    assert "initialised parameters that the checkpoint lacks: " in result.output
    load = checkpoint_utils.load_checkpoint_to_cpu
    stock, ours = (
        load(str(path))["model"] for path in (stock_model, tmp_path / "checkpoint_last.pt")
    )
    added = ours.keys() - stock.keys()
    assert added and all("mechanisms." in key and key in result.output for key in added)
    assert all(torch.equal(ours[key], value) for key, value in stock.items() if key in ours)


@pytest.mark.long(but=["relative", "block", "window(across=3)"])
@pytest.mark.parametrize("attention", [*EVERY, "relative + gaussian@0 + window(across=3)@1"])
def test_the_weights_of_every_head_can_be_asked_for(attention, data_for):
    task, model, _ = build(data_for(attention), "--encoder-attention", attention, *TABLES)
    fields = batch(task)["net_input"]
    fields.pop("prev_output_tokens")
    plain = model.eval().encoder(**fields)
    asked = model.encoder(**fields, need_weights=True)
    weights = asked.pop("attention_weights")
    assert asked.keys() == plain.keys()
    real = fields["src_tokens"] != task.source_dictionary.pad()
    torch.testing.assert_close(asked["encoder_out"][0][real.T], plain["encoder_out"][0][real.T])
    assert len(weights) == 2
    for of_layer in weights:
        assert of_layer.shape == (*real.shape[:1], 4, real.size(1), real.size(1))
        assert (of_layer.transpose(1, 3)[~real] == 0).all()  # no weight on padding
        sums = of_layer.sum(-1).transpose(1, 2)[real]
        changed = re.search("convolved|local_hard|strict", attention)
        assert changed or torch.allclose(sums, torch.ones_like(sums))
