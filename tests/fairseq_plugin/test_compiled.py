"""--compile trains as without it, on batches of a few lengths."""

import logging
import re

import numpy as np
import pytest
import torch
from torch import _dynamo as dynamo

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin import compiled
from fairseq_posattn.fairseq_plugin.compiled import CUDA_GRAPHS, CompiledLayers, padded_length
from support.commands import FULL_TREE
from support.in_process import batch, build, losses_of_updates, train

if not hasattr(torch.compiler, "set_stance"):
    pytest.skip("this torch is too old for --compile", allow_module_level=True)
COMPILE = ["--compile", "--dropout", "0"]
PADDED = ["--required-seq-len-multiple", "8"]
CROSS = ["--cross-attention", "tree_depth_bias", "--decoder-attention", "relative"]


@pytest.fixture(autouse=True)
def fresh():
    """Each test compiles anew."""
    dynamo.reset()
    dynamo.utils.counters.clear()


@pytest.fixture
def traced(monkeypatch):
    """Graphs are traced and differentiated, but not translated to C++, which takes a minute."""
    compile_layer = torch.nn.Module.compile

    def traced_only(layer, mode, **options):
        compile_layer(layer, backend="aot_eager", **options)

    monkeypatch.setattr(torch.nn.Module, "compile", traced_only)


@pytest.mark.parametrize("step", [1, 8])
def test_padded_lengths(step):
    lengths = np.arange(1, 1025)
    found = np.array([padded_length(int(length), step) for length in lengths])
    assert (found >= lengths).all() and (found % step == 0).all() and (np.diff(found) >= 0).all()
    assert (found - lengths < np.maximum(step, lengths / 4)).all()
    assert len(set(found)) <= 36


def batches_of(data, *options):
    task, _, _ = build(data, *FULL_TREE, *options)
    task.load_dataset("train")
    iterator = task.get_batch_iterator(task.dataset("train"), 200)
    return list(iterator.next_epoch_itr(shuffle=False))


def test_batches_of_a_few_lengths(toy_data):
    """No batch exceeds --max-tokens, and trees have the length of their sentences."""
    shapes = set()
    for padded in (batches := batches_of(toy_data, *COMPILE, *PADDED)):
        inputs = padded["net_input"]
        source, target = inputs["src_tokens"].shape, padded["target"].shape
        assert source[1] % 8 == 0 and target[1] % 8 == 0 and max(source[1], target[1]) <= 200
        assert source[0] * max(source[1], target[1]) <= 200
        assert inputs["prev_output_tokens"].shape == target
        assert inputs["source_tree"].shape[1:] == source
        shapes.add((source, target))
    usual = batches_of(toy_data)
    numbers = [np.sort(np.concatenate([one["id"] for one in some])) for some in (batches, usual)]
    np.testing.assert_array_equal(*numbers)
    others = {(one["net_input"]["src_tokens"].shape, one["target"].shape) for one in usual}
    assert len(shapes) < len(others) / 2


def step_of(task, model, cfg, sample):
    """Return loss and gradients of a step of training."""
    criterion = task.build_criterion(cfg.criterion)
    model.zero_grad()

    class Optimizer:
        def backward(self, loss):
            loss.backward()

    loss, *_ = task.train_step(sample, model, criterion, Optimizer(), 0)
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("options", [FULL_TREE, ["--encoder-attention", "block", *CROSS]])
def test_padding_changes_no_loss(options, toy_data, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "compile", lambda layer, **options: None)
    task, model, cfg = build(toy_data, *options, *COMPILE, *PADDED)
    task.load_dataset("train")
    dataset, rows = task.dataset("train"), range(7)
    task.get_batch_iterator(dataset, 200)
    found = [
        step_of(task, model, cfg, kind.collater([dataset[k] for k in rows]))
        for kind in (dataset, task.padded_dataset)
    ]
    torch.testing.assert_close(*found)


CASES = {
    "sequence": [],
    "structural": FULL_TREE,
    "decoder": CROSS,
    "several layers": ["--encoder-attention", "window(size=3)@0 + tree_distance@1 + t5_bias"],
    "block": ["--encoder-attention", "block@0"],
    "learns": ["--encoder-attention", "tree_supervised@1"],
    "stock": ["--arch", "transformer"],
    "fast dropout": ["--fast-dropout"],
}


@pytest.mark.long(but=["structural"])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_and_its_gradients(case, toy_data, traced, caplog):
    """One graph of a layer is for batches of all shapes."""
    caplog.set_level(logging.INFO, compiled.__name__)
    learns = ["--criterion", "tree_supervised_cross_entropy"] if case == "learns" else []
    usual, fast = (build(toy_data, *CASES[case], *learns, *more) for more in ([], COMPILE))
    fast.model.load_state_dict(usual.model.state_dict())  # the names are the same
    for own in (usual, fast):
        own.task.build_criterion(own.cfg.criterion)  # before the data, as in fairseq-train
        own.model.apply(lambda module: setattr(module, "p", 0.0) if hasattr(module, "p") else None)
    for split, rows in (("valid", range(6)), ("train", range(5)), ("train", range(3, 12))):
        expected, found = (step_of(*own, batch(own.task, split, rows)) for own in (usual, fast))
        torch.testing.assert_close(found, expected)
    logged = [record.getMessage() for record in caplog.records]
    assert "graphs compiled in" in logged[0] and " for a batch of 6 sentences with" in logged[0]
    assert int(re.search(r"\((\d+) so far", logged[-1])[1]) <= 8
    criterion = fast.task.build_criterion(fast.cfg.criterion)
    fast.task.valid_step(batch(fast.task), fast.model, criterion)  # compiles nothing
    assert dynamo.utils.counters["stats"]["unique_graphs"] <= 8


def test_accumulated_gradients_are_copied_before_cuda_graphs_overwrite_them(toy_data, traced):
    task, model, _ = build(toy_data)
    task.layers = CompiledLayers(model, CUDA_GRAPHS)
    parameter = next(model.parameters())
    parameter.grad = torch.ones_like(parameter)
    before = parameter.grad
    task.layers.begin_step()
    before.zero_()
    assert parameter.grad.eq(1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--checkpoint-activations"], "cannot be combined with --checkpoint-activations"),
        (["--encoder-layers", "0", "--decoder-layers", "0"], "the model has no layers"),
    ],
)
def test_refused(options, message, toy_data):
    with pytest.raises(InputError, match=message):
        build(toy_data, "--compile", *options)


def test_without_a_compiler_the_training_does_not_start(toy_data, monkeypatch):
    monkeypatch.setenv("CXX", "missing++")
    with pytest.raises(InputError, match=r"missing\+\+ was not found; install g\+\+, set CXX"):
        build(toy_data, "--compile")


@pytest.mark.long
def test_a_compiled_training(toy_data, tmp_path):
    """A training that started with --compile goes on without it, and the other way round."""
    both = [*FULL_TREE, "--dropout", "0", "--update-freq", "2", "--log-interval", "1"]
    losses = {}
    for name, first, second in (("with", ["--compile"], []), ("without", [], ["--compile"])):
        folder = tmp_path / name
        printed = train(toy_data, folder, *both, *first, "--max-update", "4").output
        more = train(toy_data, folder, *both, *second, "--max-update", "8").output
        assert ("graphs compiled" in printed) == bool(first)
        assert ("graphs compiled" in more) == bool(second)
        losses[name] = losses_of_updates(printed + more)
    for one, other in zip(losses["with"], losses["without"], strict=True):
        assert float(one[0]) == pytest.approx(float(other[0]), abs=2e-3)
