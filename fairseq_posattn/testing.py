"""The contract that every mechanism of attention keeps, for mechanisms of one's own, too.

    from fairseq_posattn.testing import check_mechanism

    def test_mine():
        check_mechanism("mine(size=3)")

A check takes a specification, as `--encoder-attention` does, and raises an AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.attention.mechanism import PostAttention
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.attention.sample_batch import (
    TREES,
    WIDTH,
    context,
    inputs,
    moved,
    random_tree,
    real_pieces,
)
from fairseq_posattn.core.specification import parse

HEADS = 4
SHAPE = AttentionShape(HEADS, WIDTH // HEADS, max_positions=16)
# A softmax does not see what is added to all its scores.
UNSEEN = ("k_proj.bias", "pooling.bias")


def check_mechanism(specification: str) -> None:
    """Raise an AssertionError if the mechanisms of a specification break the contract.

    Those that may stand in a decoder (`causal_safe`) are checked there as well.
    """
    every_parameter_matters(specification)
    for check in CONTRACT:
        check(specification)
    half_precision_is_close(specification, torch.bfloat16)
    if all(MECHANISMS[term.name].causal_safe for term in parse(specification)):
        steps_are_the_whole(specification)


# The contract.


def shapes_and_gradients_are_right(specification: str) -> None:
    """Output and weights have their shapes, and every parameter gets a finite gradient."""
    ctx = context(TREES)
    module = attention(specification).train()
    out, weights = module(inputs(TREES, ctx), ctx, need_weights=True)
    assert out.shape == (ctx.length, len(TREES), WIDTH)
    assert weights.shape == (len(TREES), HEADS, ctx.length, ctx.length)
    out.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


def every_parameter_matters(specification: str) -> None:
    """The gradient of no parameter is zero throughout, so each has an effect."""
    ctx = context(TREES)
    module = attention(specification).train()
    module(inputs(TREES, ctx), ctx)[0].square().sum().backward()
    for name, parameter in module.named_parameters():
        if not name.endswith(UNSEEN):
            assert parameter.grad is not None and parameter.grad.abs().sum() > 1e-12, name


def a_sentence_is_the_same_in_a_batch(specification: str) -> None:
    """Neither other sentences nor padding, on either side, change the output of a sentence."""
    module = attention(specification)
    for left in (False, True):
        ctx = context(TREES, length=13, left=left)
        together, _ = module(inputs(TREES, ctx, left), ctx)
        for row, tree in enumerate(TREES):
            real = real_pieces(ctx)[row]
            x = inputs(TREES, ctx, left)[:, row : row + 1][real]
            out, _ = module(x, context([tree]))
            torch.testing.assert_close(together[:, row][real], out[:, 0])


def padding_gets_no_weight(specification: str) -> None:
    """The weight of a padding key is exactly zero."""
    ctx = context(TREES, length=12)
    _, weights = attention(specification)(inputs(TREES, ctx), ctx, need_weights=True)
    padding = ~real_pieces(ctx)[:, None, None, :].expand_as(weights)
    assert (weights[padding] == 0).all()


def empty_rows_stay_finite(specification: str) -> None:
    """Where nothing may be attended to, the weights are zeros and the gradients finite."""
    trees = [random_tree(4, 1), ([], [])]  # the second sentence is padding throughout
    ctx = context(trees)
    module = attention(specification)
    assert isinstance(module.out_proj, torch.nn.Linear)
    torch.nn.init.zeros_(module.out_proj.bias)
    x = inputs(trees, ctx).requires_grad_()
    out, weights = module(x, ctx, need_weights=True)
    assert (weights[1] == 0).all()
    if not of_stage(
        module.mechanisms.values(), PostAttention
    ):  # a replacement may let the input through
        assert (out[:, 1] == 0).all()
    torch.testing.assert_close(module(x, ctx)[0], out)
    out.square().sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


def the_fast_way_is_the_explicit_way(specification: str) -> None:
    """The fused kernel gives what the single steps with their weights give."""
    ctx = context(TREES)
    module = attention(specification)
    x, real = inputs(TREES, ctx), real_pieces(ctx).T
    explicit, _ = module(x, ctx, need_weights=True)
    torch.testing.assert_close(module(x, ctx)[0][real], explicit[real])


def autocast_is_close(specification: str) -> None:
    """Under autocast the output stays close to that in float32, and the gradients finite."""
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float).requires_grad_()
    expected, _ = module(x, ctx)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = module(x, ctx)
    out.float().square().sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    assert_near(out, expected, real_pieces(ctx).T)


def half_precision_is_close(specification: str, dtype: torch.dtype, device: str = "cpu") -> None:
    """In half precision the output stays close to that in float32."""
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float)
    expected, _ = module(x, ctx)
    out, _ = module.to(device, dtype)(x.to(device, dtype), moved(ctx, device))
    assert out.dtype == dtype
    assert_near(out.cpu(), expected, real_pieces(ctx).T)


def steps_are_the_whole(specification: str) -> None:
    """In a decoder, the last pieces as the only queries get what they get in the whole."""
    module = attention(specification)
    for left in (False, True):
        whole = context(TREES, left=left)
        whole.causal = True
        x = inputs(TREES, whole, left)
        expected, weights = module(x, whole, need_weights=True)
        assert (weights.triu(1) == 0).all()
        for count in (1, 3):  # queries
            for end in range(count, whole.length + 1):
                real = real_pieces(whole)[:, :end]
                ctx = AttentionContext(end, x.device, real, queries=count, causal=True)
                q, k, v = module.project(x[:end])
                out, _ = module.attend(x[end - count : end], q[:, :, -count:], k, v, ctx)
                new = real[:, -count:].T
                torch.testing.assert_close(out[new], expected[end - count : end][new])


CONTRACT: tuple[Callable[[str], None], ...] = (
    shapes_and_gradients_are_right,
    a_sentence_is_the_same_in_a_batch,
    padding_gets_no_weight,
    empty_rows_stay_finite,
    the_fast_way_is_the_explicit_way,
    autocast_is_close,
)


# What the checks work on.


class Attention(MultiheadSelfAttention):
    """Attention with what stands before it in its layer."""

    def forward(
        self, x: Tensor, ctx: AttentionContext, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        return super().forward(self.before(x, ctx), ctx, need_weights)


def attention(specification: str, seed: int = 0) -> Attention:
    """Return a small layer in double precision whose mechanisms are away from neutral starts."""
    torch.manual_seed(seed)
    mechanisms = AttentionSpecification(specification).build(0, SHAPE)
    module = Attention(WIDTH, HEADS, mechanisms)
    for parameter in module.mechanisms.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def assert_near(out: Tensor, expected: Tensor, real: Tensor) -> None:
    """Compare real positions, as closely as eight bits of a fraction allow."""
    near = 0.05 * max(1.0, float(expected[real].detach().abs().max()))
    torch.testing.assert_close(out.float()[real], expected[real], rtol=0.05, atol=near)
