"""fused_adam and fused_label_smoothed_cross_entropy train as fairseq's own do, but for rounding."""

from argparse import Namespace

import pytest
import torch
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.optim import adam

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.core.label_smoothing import TableGradient, projected_cross_entropy
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin import criterions, optimizers
from fairseq_posattn.fairseq_plugin.models.posattn_transformer import FastDropout
from support.in_process import batch, build, train

FUSED = ["--optimizer", "fused_adam", "--criterion", "fused_label_smoothed_cross_entropy"]
STOCK = ["--optimizer", "adam", "--criterion", "label_smoothed_cross_entropy"]
SMOOTHED = ["--label-smoothing", "0.1"]
DECAYS = [0.0, 0.1]


def options(**others):
    values = {
        "lr": [0.01],
        "adam_betas": "(0.9, 0.98)",
        "adam_eps": 1e-3,  # so large that it counts where it stands
        "weight_decay": 0.0,
        "fp16_adam_stats": False,
        "tpu": False,
    }
    return Namespace(**{**values, **others})


def stepped(kind, decay, dtype, steps, state=None, limit=None, norms=None):
    """Parameters after some steps; one of them lacks a gradient at times, as under LayerDrop."""
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(n, 3).to(dtype)) for n in (2, 5, 1)]
    optimizer = kind.FairseqAdam(options(weight_decay=decay), iter(parameters))
    if state is not None:
        with torch.no_grad():
            for parameter, value in zip(parameters, state[0], strict=True):
                parameter.copy_(value)
        optimizer.load_state_dict(state[1])
    for step in steps:
        torch.manual_seed(step)
        for number, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape).to(dtype)
            parameter.grad = None if (step + number) % 3 == 0 else gradient
        if limit is not None:
            optimizer.multiply_grads(0.3)
            norms.append(optimizer.clip_grad_norm(limit))
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in parameters], optimizer.state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.double, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("decay", DECAYS)
def test_as_fairseq(decay, dtype):
    found, states = stepped(optimizers, decay, dtype, range(6))
    expected, stock = stepped(adam, decay, dtype, range(6))
    torch.testing.assert_close(found, expected)
    for number, state in stock["state"].items():
        own = states["state"][number]
        assert own.keys() == state.keys() and own["step"] == state["step"]
        torch.testing.assert_close(own["exp_avg"], state["exp_avg"])
        torch.testing.assert_close(own["exp_avg_sq"], state["exp_avg_sq"])


@pytest.mark.parametrize("limit", [0, 0.5, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_multiplied_and_clipped(dtype, limit):
    own, stock = [], []
    found, _ = stepped(optimizers, 0.1, dtype, range(6), limit=limit, norms=own)
    expected, _ = stepped(adam, 0.1, dtype, range(6), limit=limit, norms=stock)
    tolerance = {} if dtype == torch.float32 else {"rtol": 0.02, "atol": 1e-2}
    torch.testing.assert_close(own, stock, **tolerance)  # bfloat16 rounds what it multiplies
    torch.testing.assert_close(found, expected, **tolerance)


def test_what_was_to_be_multiplied_is_forgotten_with_the_gradients():
    """As after an update of half precision whose gradients were too large."""
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = optimizers.FairseqAdam(options(), [parameter])
    parameter.grad = torch.ones(3)
    optimizer.multiply_grads(1000.0)
    optimizer.zero_grad()
    parameter.grad = torch.ones(3)
    assert optimizer.clip_grad_norm(0).item() == pytest.approx(3**0.5)


@pytest.mark.parametrize("kinds", [(adam, optimizers), (optimizers, adam)], ids=["from", "to"])
def test_the_state_goes_on(kinds):
    first, second = kinds
    before = stepped(first, 0.1, torch.float32, range(4))
    found, _ = stepped(second, 0.1, torch.float32, range(4, 8), before)
    expected, _ = stepped(adam, 0.1, torch.float32, range(8))
    torch.testing.assert_close(found, expected)


def test_the_means_are_there_before_the_first_batch():
    """A checkpoint takes their place, also one of fairseq's optimizer."""
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(1))]
    optimizer = optimizers.FairseqAdam(options(), parameters)
    for state in (optimizer.optimizer.state[p] for p in parameters):
        assert state["step"] == 0 and not state["exp_avg"].any() and not state["exp_avg_sq"].any()
    stock = adam.FairseqAdam(options(), parameters)
    stock.load_state_dict(optimizer.state_dict())  # parameters that never had a gradient
    parameters[0].grad = torch.ones(2, 3)
    stock.step()
    optimizer.load_state_dict(stock.state_dict())
    states = [optimizer.optimizer.state[p] for p in parameters]
    assert [state["step"] for state in states] == [1, 0]
    assert states[0]["exp_avg"].any() and not states[1]["exp_avg"].any()


def test_without_a_kernel_it_is_the_optimizer_of_fairseq(monkeypatch):
    monkeypatch.setattr(optimizers, "has_fused_kernel", lambda device: False)
    optimizer = optimizers.FairseqAdam(options(), [torch.nn.Parameter(torch.ones(1))])
    assert type(optimizer.optimizer) is adam.Adam


def test_refused():
    with pytest.raises(InputError, match="--fp16-adam-stats cannot be combined"):
        optimizers.FairseqAdam(options(fp16_adam_stats=True), [])


@pytest.fixture
def projected(monkeypatch):
    """The list gets an entry each time that the criterion does the last product itself."""
    seen = []

    def noted(*arguments):
        seen.append(arguments[-1])  # the total
        return projected_cross_entropy(*arguments)

    monkeypatch.setattr(criterions, "projected_cross_entropy", noted)
    return seen


@pytest.mark.parametrize(
    "shared", ["--share-all-embeddings", "--share-decoder-input-output-embed", None]
)
@pytest.mark.parametrize("arch", ["posattn_sequence_tiny", "transformer_tiny"])
def test_the_loss_and_its_gradients(arch, shared, toy_data, projected):
    """Two batches, as under --update-freq 2, whose gradients are added up."""
    small = ["--arch", arch, *SMOOTHED, *([shared] if shared else [])]
    gradients, losses = [], []
    for chosen in (STOCK, FUSED):
        task, model, cfg = build(toy_data, *chosen, *small)
        criterion = task.build_criterion(cfg.criterion)
        for _ in range(2):
            loss, size, logged = criterion(model.eval(), batch(task))
            loss.backward()
        losses.append([loss, size, logged])
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)
    assert len(projected) == 2
    embeddings = [m for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    assert not any("forward" in vars(embedding) for embedding in embeddings)


def test_the_table_of_the_words_gets_one_gradient(toy_data, projected):
    """The embeddings of both sides add theirs to that of the last product."""
    task, model, cfg = build(toy_data, *FUSED, *SMOOTHED, "--share-all-embeddings")
    loss, *_ = task.build_criterion(cfg.criterion)(model, batch(task))
    [total], added = projected, []
    total.add_rows = lambda *arguments: added.append(TableGradient.add_rows(total, *arguments))
    loss.backward()
    assert len(added) == 2 and total.sum is None
    assert model.decoder.output_projection.weight.grad.any(dim=1).all()


@pytest.mark.parametrize("option", ["half", "unused", "bias", "wrapped"])
def test_the_model_projects_where_the_criterion_cannot(option, toy_data, projected):
    task, model, cfg = build(toy_data, *FUSED, *SMOOTHED)
    criterion = task.build_criterion(cfg.criterion)
    if option == "half":
        model.bfloat16()
    elif option == "unused":
        model.find_unused_parameters = True  # as under --find-unused-parameters
    elif option == "bias":
        last = model.decoder.output_projection
        last.bias = torch.nn.Parameter(torch.ones(len(last.weight)))
    else:
        model.decoder.output_projection = torch.nn.Sequential(model.decoder.output_projection)
    loss, *_ = criterion(model, batch(task))
    loss.backward()
    assert not projected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_parts_in_half_precision(dtype, toy_data, projected):
    """Not in float16, in which gradients of a loss that is not scaled yet would be 0."""
    losses = []
    for chosen in ([], ["--chunked-loss"]):
        task, model, cfg = build(toy_data, *FUSED, *SMOOTHED, *chosen)
        model.to(dtype).eval()
        losses.append(task.build_criterion(cfg.criterion)(model, batch(task))[0])
    losses[-1].backward()
    torch.testing.assert_close(*losses, rtol=1e-2, atol=0)
    assert len(projected) == (dtype == torch.bfloat16)


@torch.no_grad()
def test_models_without_scores_take_the_way_of_fairseq(toy_data):
    small = ["--arch", "transformer_tiny", "--adaptive-softmax-cutoff", "20,40", *SMOOTHED]
    losses = []
    for chosen in (STOCK, FUSED):
        task, model, cfg = build(toy_data, *chosen, *small)
        losses.append(task.build_criterion(cfg.criterion)(model.eval(), batch(task)))
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("extra", [[], ["--report-accuracy"], ["--ignore-prefix-size", "1"]])
def test_options_of_the_criterion(extra, toy_data):
    logs = []
    for chosen in (STOCK, FUSED):
        task, model, cfg = build(toy_data, *chosen, *SMOOTHED, *extra)
        criterion = task.build_criterion(cfg.criterion)
        for reduce in (True, False):
            loss, _, logged = criterion(model.eval(), batch(task), reduce)
            logs.append({**logged, "of each": loss.detach()})
    torch.testing.assert_close(logs[2:], logs[:2])


def test_fast_dropout(toy_data, tmp_path):
    """The places and the rates of dropout are fairseq's, and a seed gives the same training."""
    rates = ["--dropout", "0.1", "--attention-dropout", "0.2", "--activation-dropout", "0.3"]
    stock = build(toy_data, *rates).model
    fast = build(toy_data, *rates, "--fast-dropout").model
    places = [
        {name: (m.p, m.module_name) for name, m in of.named_modules() if isinstance(m, kind)}
        for of, kind in ((stock, FairseqDropout), (fast, FastDropout))
    ]
    assert places[0] == places[1] and len(places[0]) > 8
    found = []
    for name in ("one", "two"):
        train(toy_data, tmp_path / name, *rates, "--fast-dropout", "--disable-validation")
        found.append(weights(tmp_path / name))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def weights(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"]


@pytest.mark.long(ci=True)
def test_a_training_goes_on_with_either(toy_data, tmp_path):
    """Ten updates, five of them with the fused programs, give the model of the stock ones."""
    found = []
    for number, halves in enumerate([(STOCK, STOCK), (STOCK, FUSED), (FUSED, STOCK)]):
        common = [*SMOOTHED, "--disable-validation", "--lr", "1e-3"]
        for updates, chosen in zip((5, 10), halves, strict=True):
            train(toy_data, tmp_path / str(number), *common, *chosen, "--max-update", updates)
        found.append(weights(tmp_path / str(number)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(found[2], found[0], rtol=1e-3, atol=1e-5)
