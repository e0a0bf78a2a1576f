"""Mechanisms work in fairseq's own programs: training, checkpoints, weights, ones of a user."""

import re

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_posattn.core.attention import MECHANISMS
from support.commands import PLUGIN, fairseq, training_options
from support.in_process import (
    batch,
    build,
    generate,
    hypotheses_and_scores,
    losses_of_updates,
    train,
)

TABLES = ("--max-source-positions", "128")  # of t x t numbers, t the longest input
VARIANTS = ["window(across=3)", "directional(strict=true)", "direct_relative(symmetric=true)"]
EVERY = sorted(MECHANISMS) + VARIANTS
FREE = [name for name in EVERY if not getattr(MECHANISMS.get(name), "needs_tree", False)]
NO_PARAMETERS = ["window", "window(across=3)", "directional"]


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


def test_training_and_translating_under_the_plain_task(toy_data, tmp_path):
    plain = ("--task", "translation", "--encoder-attention", "window(across=3)@0 + relative")
    train(toy_data, tmp_path, *plain)
    last = tmp_path / "checkpoint_last.pt"
    output = generate(toy_data, last, "--task", "translation", "--batch-size", "20").output
    assert len(hypotheses_and_scores(output)) > 50  # fairseq-fixed's task drops the last ones


@pytest.mark.parametrize("attention", NO_PARAMETERS)
def test_a_stock_checkpoint_loads_where_nothing_was_added(attention, toy_data):
    """It loads strictly, and the mechanism acts."""
    stock = build(toy_data, "--arch", "transformer", seed=2)
    ours = build(toy_data, "--encoder-attention", attention, "--decoder-attention", "window")
    state = dict(stock.model.state_dict())
    ours.model.load_state_dict(state, strict=True, model_cfg=ours.cfg.model)
    sample = batch(ours.task)["net_input"]
    stock_sample = {key: value for key, value in sample.items() if key != "source_tree"}
    before, after = stock.model.eval()(**stock_sample)[0], ours.model.eval()(**sample)[0]
    assert (before - after).abs().max() > 1e-4


@pytest.mark.long(but=["temperature"])
@pytest.mark.parametrize("attention", ["gaussian", "convolved_2d(init=identity)", "temperature"])
def test_fine_tuning_from_a_stock_checkpoint(attention, stock_model, toy_data, tmp_path):
    """What was added starts anew, all else is taken over."""
    chosen = ("--encoder-attention", attention, "--finetune-from-model", stock_model)
    result = train(toy_data, tmp_path, *chosen, "--lr", "1e-30", "--max-update", "1")
    assert "the checkpoint lacks these, so they start anew" in result.output
    load = checkpoint_utils.load_checkpoint_to_cpu
    stock, ours = (
        load(str(path))["model"] for path in (stock_model, tmp_path / "checkpoint_last.pt")
    )
    added = ours.keys() - stock.keys()
    assert added and all(".mechanisms." in key for key in added)
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


# a mechanism of a user's own

OWN = '''"""Looks at every second piece only, and at what the bias likes."""

from dataclasses import dataclass

import torch
from torch import nn

from fairseq_posattn import plugin
from fairseq_posattn.attention import ScoreBias, ScoreMask, register


@dataclass(frozen=True)
class EverySecondOptions:
    step: int = 2


@register
class EverySecond(ScoreMask, ScoreBias):
    """Keys at an even distance."""

    name = "every_second"
    Options = EverySecondOptions
    causal_safe = True

    def __init__(self, options, shape, heads=None):
        super().__init__(options, shape, heads)
        self.weight = nn.Parameter(torch.zeros(shape.heads))

    def allowed(self, q, ctx):
        return ctx.distances[None, None] % self.options.step == 0

    def bias(self, q, ctx):
        return self.weight[:, None, None] * ctx.distances[None]
'''


@pytest.mark.long
def test_a_mechanism_outside_of_the_package(toy_data, tmp_path):
    """It lies in the user's own --user-dir, acts on both sides, combines with ours, and
    translates."""
    own = tmp_path / "my_mechanisms"
    own.mkdir()
    (own / "__init__.py").write_text(OWN)
    chosen = ["--encoder-attention", "every_second(step=3) + relative", "--user-dir", own]
    chosen += ["--decoder-attention", "every_second@0", "--max-update", "8"]
    output = fairseq("train", *training_options(toy_data, tmp_path / "run", *chosen)).stdout
    assert "every_second(step=3) + relative(max=16, shared_heads=true)" in output
    last = tmp_path / "run/checkpoint_last.pt"
    state = checkpoint_utils.load_checkpoint_to_cpu(str(last))["model"]
    assert "encoder.layers.0.self_attn.mechanisms.every_second.weight" in state
    assert "decoder.layers.0.self_attn.mechanisms.every_second.weight" in state
    common = [toy_data, "--task", "structured_translation", "--path", last, "--cpu"]
    common += ["--batch-size", "16", "--beam", "2"]
    translated = fairseq("generate", *common, "--user-dir", own).stdout
    assert len(hypotheses_and_scores(translated)) == 60
    missing = fairseq("generate", *common, "--user-dir", PLUGIN, check=False)
    assert missing.returncode
    last_line = missing.stdout.splitlines()[-1]
    assert "the attention mechanism 'every_second', which is not one of this" in last_line
    assert "--user-dir" in last_line
