"""What the layers of a term share is stored once, learnt by all of them, and survives a prune."""

import copy

import pytest
import torch
from fairseq import checkpoint_utils

from support.in_process import batch, build, train

BOTH = ("--encoder-attention", "t5_bias", "--decoder-attention", "t5_bias(buckets=8, max=6)")
KEYS = {f"{side}.shared_mechanisms.t5_bias.scores" for side in ("encoder", "decoder")}


def tables(model):
    return {name for name, _ in model.named_parameters() if "t5_bias" in name}


def load(path, task, **overrides):
    keep = {f"{side}_layers_to_keep": layers for side, layers in overrides.items()}
    models, _ = checkpoint_utils.load_model_ensemble([str(path)], arg_overrides=keep, task=task)
    return models[0]


def test_a_model_has_one_table_on_each_side(toy_data):
    _, model, _ = build(toy_data, *BOTH)
    assert tables(model) == KEYS == {key for key in model.state_dict() if "t5_bias" in key}
    encoder, decoder = model.encoder, model.decoder
    for side in (encoder, decoder):
        [own] = side.shared_mechanisms.values()
        for layer in side.layers:
            assert layer.self_attn.mechanisms["t5_bias"].table is own
    assert encoder.shared_mechanisms["t5_bias"] is not decoder.shared_mechanisms["t5_bias"]


def test_each_term_has_its_own_table(toy_data):
    chosen = "t5_bias(buckets=4, max=3)@0 + t5_bias@1"
    _, model, _ = build(toy_data, "--encoder-attention", chosen)
    assert tables(model) == {f"encoder.shared_mechanisms.t5_bias@{n}.scores" for n in (0, 1)}
    _, model, _ = build(toy_data, "--encoder-attention", "t5_bias(shared=nothing)")
    names = {f"encoder.layers.{n}.self_attn.mechanisms.t5_bias.own.scores" for n in (0, 1)}
    assert tables(model) == names


def test_all_layers_teach_the_table(toy_data):
    """Its gradient is the sum of those that tables of the layers' own would get."""
    gradients, start = {}, None
    for shared in ("layers", "nothing"):
        task, model, _ = build(toy_data, "--encoder-attention", f"t5_bias(shared={shared})")
        model.eval()
        torch.manual_seed(3)
        drawn = torch.randn(4, 32)
        for name in tables(model):
            model.get_parameter(name).data.copy_(drawn)
        others = {key: value for key, value in model.state_dict().items() if "t5_bias" not in key}
        start = start or others  # all else is the same
        model.load_state_dict(start, strict=False)
        model(**batch(task)["net_input"])[0].square().sum().backward()
        gradients[shared] = [model.get_parameter(name).grad for name in sorted(tables(model))]
    [of_all], of_each = gradients["layers"], gradients["nothing"]
    assert len(of_each) == 2 and not torch.allclose(*of_each)
    torch.testing.assert_close(of_all, sum(of_each))


@pytest.mark.parametrize("change", [copy.deepcopy, lambda model: model.double().float()])
def test_a_copy_refers_to_its_own_table(change, toy_data):
    _, model, _ = build(toy_data, *BOTH)
    changed = change(model)
    own = changed.encoder.shared_mechanisms["t5_bias"]
    assert all(x.self_attn.mechanisms["t5_bias"].table is own for x in changed.encoder.layers)
    assert own.scores.dtype == torch.float32


def test_pruned_layers_keep_the_table(toy_data, tmp_path):
    chosen = ("--encoder-attention", "t5_bias@1 + gaussian", "--max-update", "1")
    train(toy_data, tmp_path, *chosen)
    last, task = tmp_path / "checkpoint_last.pt", build(toy_data).task
    saved = checkpoint_utils.load_checkpoint_to_cpu(str(last))["model"]
    [key] = {key for key in saved if "t5_bias" in key}
    with_it = load(last, task, encoder="1", decoder="0")
    assert torch.equal(with_it.state_dict()[key], saved[key])
    without = load(last, task, encoder="0", decoder="0")
    assert not tables(without)


@pytest.mark.parametrize("learned", [(), ("--encoder-learned-pos", "--decoder-learned-pos")])
@pytest.mark.parametrize("mechanism", ["alibi", "t5_bias", "rope"])
def test_positions_of_a_stock_checkpoint_are_swapped(mechanism, learned, toy_data, tmp_path):
    """For --finetune-from-model: its table of positions is left out, the rest is taken over."""
    train(toy_data, tmp_path / "stock", "--arch", "transformer", *learned, "--max-update", "1")
    last = tmp_path / "stock/checkpoint_last.pt"
    swapped = [f"--{side}-attention={mechanism}" for side in ("encoder", "decoder")]
    swapped += [f"--{side}-positions=none" for side in ("encoder", "decoder")]
    tuned = ("--finetune-from-model", last, "--lr", "1e-30", "--max-update", "1")
    train(toy_data, tmp_path / "tuned", *swapped, *tuned)
    read = checkpoint_utils.load_checkpoint_to_cpu
    stock = read(str(last))["model"]
    ours = read(str(tmp_path / "tuned/checkpoint_last.pt"))["model"]
    assert not [key for key in ours if "embed_positions" in key]
    common = ours.keys() & stock.keys()
    assert len(common) > 50 and all(torch.equal(ours[key], stock[key]) for key in common)
