"""Translation with weights that are sorted once says what it said before."""

import copy

import pytest
import torch
from fairseq.optim.adam import FairseqAdam
from omegaconf import OmegaConf

from fairseq_posattn.fairseq_plugin.models import fast_linear
from fairseq_posattn.fairseq_plugin.models.fast_linear import FastLinear, fast_layers
from support.in_process import build, generate, hypotheses_and_scores


@pytest.fixture(autouse=True, params=[FastLinear, fast_linear.BlockedLinear])
def small_layers_too(monkeypatch, request):
    monkeypatch.setattr(fast_linear, "SMALLEST", 1)
    monkeypatch.setattr(fast_linear, "fastest_class", lambda layers: request.param)


@pytest.fixture
def prepared(toy_data):
    torch.manual_seed(1)
    model = build(toy_data, "--arch", "posattn_structural_tiny").model.eval()
    plain = copy.deepcopy(model.decoder)
    model.make_generation_fast_()
    return model.decoder, plain


def steps(decoder, encoded):
    """Return what the decoder says after each of four pieces, step by step."""
    pieces, state, said = torch.tensor([[2, 5, 6, 7], [2, 9, 8, 5]]), {}, []
    for k in range(1, 5):
        out, _ = decoder(pieces[:, :k], encoded, incremental_state=state)
        said.append(out[:, -1])
    return torch.stack(said)


def encoded(decoder):
    width, padding = decoder.embed_dim, torch.zeros(2, 7).bool()
    torch.manual_seed(2)
    return {"encoder_out": [torch.randn(7, 2, width)], "encoder_padding_mask": [padding]}


def test_steps_are_those_of_plain_layers(prepared):
    decoder, plain = prepared
    assert len(fast_layers(decoder)) > 10 and not fast_layers(plain)
    with torch.no_grad():
        a, b = (steps(one, encoded(plain)) for one in prepared)
    assert all(m.copy is not None for m in fast_layers(decoder))
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_new_weights_are_not_forgotten(prepared):
    decoder, plain = prepared
    with torch.no_grad():
        steps(decoder, encoded(plain))
        for parameter in plain.parameters():
            parameter.mul_(1.5)
        decoder.load_state_dict(plain.state_dict())
        a, b = (steps(one, encoded(plain)) for one in prepared)
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        for module in prepared:  # no version counts what is written so
            for parameter in module.parameters():
                parameter.data.mul_(1.5)
        a, b = (steps(one, encoded(plain)) for one in prepared)
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        plain.double(), decoder.double()
        source = encoded(plain)
        source["encoder_out"] = [source["encoder_out"][0].double()]
        torch.testing.assert_close(steps(decoder, source), steps(plain, source))


def test_a_step_of_fairseqs_own_adam_is_not_forgotten(prepared):
    _, plain = prepared
    options = {"lr": [0.1], "adam_betas": "(0.9, 0.98)", "adam_eps": 1.0, "weight_decay": 0.0}
    options |= {"use_old_adam": True, "tpu": False, "fp16_adam_stats": False}
    for one in prepared:
        steps(one, encoded(plain)).square().sum().backward()
        with torch.no_grad():
            steps(one, encoded(plain))  # sorts the weights
        adam = FairseqAdam(OmegaConf.create(options), list(one.parameters()))
        adam.step()
    with torch.no_grad():
        a, b = (steps(one, encoded(plain)) for one in prepared)
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_gradients_flow_as_before(prepared):
    sums = [steps(one, encoded(one)).square().sum() for one in prepared]
    for one in sums:
        one.backward()
    for a, b in zip(*(one.parameters() for one in prepared), strict=True):
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or torch.equal(a.grad, b.grad)


def test_copies_and_records_are_those_of_plain_layers(prepared):
    decoder, plain = prepared
    assert decoder.state_dict().keys() == plain.state_dict().keys()
    with torch.no_grad():
        twin = copy.deepcopy(decoder)
        torch.testing.assert_close(steps(twin, encoded(plain)), steps(decoder, encoded(plain)))
    fast_linear.convert(fast_layers(decoder), torch.nn.Linear)
    assert not fast_layers(decoder)
    with torch.no_grad():
        assert torch.equal(steps(decoder, encoded(plain)), steps(plain, encoded(plain)))


def test_the_fastest_class_is_chosen(monkeypatch):
    monkeypatch.undo()
    kinds = torch.nn.Linear, FastLinear, fast_linear.BlockedLinear
    for taken, chosen in (((1, 0.9, 1.1), 1), ((1, 0.9, 0.8), 2), ((1, 0.99, 0.98), 0)):
        times = dict(zip(kinds, taken, strict=True))
        monkeypatch.setattr(fast_linear, "seconds", lambda layers, _, t=times: t[type(layers[0])])
        model = torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.Linear(4, 4))
        fast_linear.use_fast_linear(model)
        assert [type(layer) for layer in model] == [kinds[chosen], torch.nn.Linear]


def test_small_layers_stay_as_they_are(monkeypatch, toy_data):
    monkeypatch.undo()
    model = build(toy_data, "--arch", "posattn_structural_tiny").model
    model.make_generation_fast_()
    sizes = {m.weight.numel() for m in fast_layers(model)}
    others = {m.weight.numel() for m in model.decoder.modules() if type(m) is torch.nn.Linear}
    assert max(others) < fast_linear.SMALLEST <= min(sizes, default=fast_linear.SMALLEST)


@pytest.mark.long(ci=True)
def test_fairseq_generate_finds_the_same_translations(toy_data, tree_model, monkeypatch):
    with_copies = generate(toy_data, tree_model).output
    monkeypatch.setattr(
        "fairseq_posattn.fairseq_plugin.models.decoder.use_fast_linear", lambda module: None
    )
    without = generate(toy_data, tree_model).output
    a, b = hypotheses_and_scores(with_copies), hypotheses_and_scores(without)
    assert len(a) and a.keys() == b.keys()
    for number in a:
        assert a[number][0] == b[number][0]
        assert float(a[number][1]) == pytest.approx(float(b[number][1]), abs=1e-4)
