"""Attention block by block gives what the whole square of scores gives under the window's mask."""

import pytest
import torch
from torch import nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    bands,
    blockwise,
    window,
)
from fairseq_posattn.core.attention.pipeline import attend

HEADS = 4


def windowed(size, across=1):
    options = window.WindowOptions(size=size, across=across)
    return window.Window(options, AttentionShape(HEADS, 8))


def random_batch(length, paddings, width=8, dtype=torch.double):
    """Return q, k, v and the real pieces of sentences with (left, right) columns of padding."""
    torch.manual_seed(length)
    qkv = [torch.randn(len(paddings), HEADS, length, width, dtype=dtype) for _ in range(3)]
    column = torch.arange(length)
    real = torch.stack([(column >= left) & (column < length - right) for left, right in paddings])
    return [x.requires_grad_() for x in qkv], None if real.all() else real


def context(qkv, real=None, causal=False):
    return AttentionContext(qkv[0].size(2), qkv[0].device, real, causal=causal)


def output_and_gradients(qkv, mechanism, real, causal=False):
    out, _ = attend(*qkv, context(qkv, real, causal), [mechanism])
    if real is not None:  # what a padding piece gets is nobody's
        out = out * real[:, None, :, None]
    return out, *torch.autograd.grad(out.cos().sum(), qkv)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setitem(window.LONG, "cpu", -10_000)


@pytest.fixture(params=[2, 5, 16])
def sizes(request, monkeypatch):
    """Set the number of queries of a block."""
    monkeypatch.setitem(bands.BLOCK, "cpu", (request.param, request.param))


PADDED = [(0, 0), (0, 20), (5, 0), (3, 4)]


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("paddings", [[(0, 0)] * 3, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("size, across", [(1, 1), (3, 1), (21, 1), (5, 3), (999, 3)])
@pytest.mark.parametrize("length", [23, 40])
def test_equal_to_the_whole_square(length, size, across, paddings, causal, request):
    qkv, real = random_batch(length, paddings)
    mechanism = windowed(size, across)
    expected = output_and_gradients(qkv, mechanism, real, causal)
    request.getfixturevalue("always")
    found = output_and_gradients(qkv, mechanism, real, causal)
    for x, y in zip(found, expected, strict=True):
        assert (x - y).abs().max() < 1e-10


def test_half_precision(request):
    qkv, real = random_batch(40, PADDED, dtype=torch.bfloat16)
    mechanism = windowed(5, 3)
    expected = output_and_gradients(qkv, mechanism, real)
    request.getfixturevalue("always")
    found = output_and_gradients(qkv, mechanism, real)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0.03, atol=0.03)


@pytest.mark.usefixtures("always")
def test_dropout_is_the_same_in_the_backward_pass(monkeypatch):
    monkeypatch.setitem(bands.BLOCK, "cpu", (2, 2))
    qkv, _ = random_batch(5, [(0, 0)] * 2, width=2)

    def attention(*qkv, rate=0.5):
        torch.manual_seed(1)
        return attend(*qkv, context(qkv), [windowed(3, 3)], nn.Dropout(rate))[0]

    assert not torch.equal(attention(*qkv), attention(*qkv, rate=0.0))
    assert torch.autograd.gradcheck(attention, qkv, fast_mode=True)


@pytest.mark.parametrize("size, least", [(3, 134), (101, 330)])
def test_from_some_length_on_it_goes_block_by_block(size, least):
    for length, blockwise_taken in ((least - 1, False), (least, True)):
        qkv, _ = random_batch(length, [(0, 0)])
        out = windowed(size).fast_path(*qkv, context(qkv), 0.0)
        assert (out is not None) == blockwise_taken


def test_checkpointing_may_make_it_again():
    """torch hands out what was saved for the backward pass once."""
    from torch.utils.checkpoint import checkpoint

    (q, k, v), _ = random_batch(400, [(0, 0)])
    mechanism = windowed(5)

    def loss():
        return attend(q, k, v, context((q, k, v)), [mechanism])[0].square().sum()

    expected = torch.autograd.grad(loss(), (q, k, v))
    found = torch.autograd.grad(checkpoint(loss, use_reentrant=False), (q, k, v))
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("always")
def test_without_the_kernel_it_goes_in_bands(monkeypatch):
    """torch 2.1 has no kernel that takes a mask, and only CPUs have this one."""
    qkv, real = random_batch(40, PADDED)
    expected = output_and_gradients(qkv, windowed(5, 3), real)
    monkeypatch.setattr(blockwise, "HAS_KERNEL", False)
    ctx = context(qkv, real)
    assert windowed(5, 3).fast_path(*qkv, ctx, 0.0) is None
    torch.testing.assert_close(output_and_gradients(qkv, windowed(5, 3), real), expected)


@pytest.mark.usefixtures("always")
def test_second_derivatives_are_refused():
    """They would be wrong, because the backward pass is written by hand."""
    qkv, real = random_batch(12, [(0, 0)])
    out, _ = attend(*qkv, context(qkv, real), [windowed(3)])
    (first,) = torch.autograd.grad(out.cos().sum(), qkv[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
