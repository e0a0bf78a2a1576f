"""Checks of the fused kernel, dropout, half precision and incremental decoding."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    FastPath,
    PostAttention,
    PreAttention,
    ScoreMask,
)
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs, moved, real_pieces
from fairseq_posattn.testing.layer import attention, has_replacement, kernel_calls, mechanisms_of
from fairseq_posattn.testing.outcomes import (
    METHODS,
    BrokenPromise,
    NotApplicable,
    expect_same,
    is_close,
    largest_difference,
)


def the_fused_way_is_the_explicit_way(specification: str) -> None:
    """Check that explicit computation (with weights) and the fused kernel give the same output."""
    ctx = context(TREES)
    module = attention(specification)
    x, real = inputs(TREES, ctx), real_pieces(ctx).T
    explicit, _ = module.with_weights(x, ctx)
    fused = module.output(x, ctx)
    expect_same(
        fused[real],
        explicit[real],
        "the same output with and without weights",
        "fused kernel and explicit computation disagree; a mask that hides a piece from itself "
        "needs keeps_self = False, and fast_path must return the same output",
        ("fast_path", *METHODS),
    )


def the_fused_kernel_serves_it(specification: str) -> None:
    """Check that torch's fused kernel is used, unless the class sets fused = False."""
    module = attention(specification)
    mechanisms = list(module.mechanisms.values())
    if not all(m.fused for m in mechanisms):
        raise NotApplicable("it needs the scores or weights (fused = False)")
    if not all(mask.keeps_self for mask in of_stage(mechanisms, ScoreMask)):
        raise NotApplicable("its mask may hide a piece from itself (keeps_self = False)")
    ctx = context(TREES)
    with kernel_calls() as calls:
        module.output(inputs(TREES, ctx), ctx)
    if not calls and not of_stage(mechanisms, FastPath):
        raise BrokenPromise("a call to torch's fused kernel", "none", "set fused = False")


class DropsEverything(nn.Module):
    """Dropout that sets all values to zero, so that its effect on an output can be detected."""

    p = 0.25
    apply_during_inference = False

    def forward(self, weights: Tensor) -> Tensor:
        return weights * 0


def dropout_acts_once(specification: str) -> None:
    """Check that dropout is applied exactly once, and not to the returned weights."""
    ctx = context(TREES)
    module = attention(specification).train()
    x = inputs(TREES, ctx)
    _, weights = module.with_weights(x, ctx)
    module.dropout_module = DropsEverything()
    out, same = module.with_weights(x, ctx)
    if not torch.equal(weights, same):
        raise BrokenPromise("the attention weights before dropout", "different weights")
    if has_replacement(module):
        return  # it may have a residual connection, or attention without dropout
    assert isinstance(module.out_proj, nn.Linear)
    if not is_close(out, module.out_proj.bias.expand_as(out)):
        raise BrokenPromise(
            "an output equal to the bias of out_proj when all weights are dropped",
            "a different output",
            "compute the value term from the given weights",
            ("value_term",),
        )
    with kernel_calls() as calls:
        module.output(x, ctx)
        module.eval().output(x, ctx)
    rates = [call.get("dropout_p", 0.0) for call in calls]
    if rates not in ([], [0.25, 0.0]):
        raise BrokenPromise("dropout rates [0.25, 0.0] in training and evaluation", str(rates))


def autocast_is_close(specification: str) -> None:
    """Check that under autocast the output is close to that in float32 and gradients are finite."""
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float).requires_grad_()
    expected = module.output(x, ctx)
    with torch.autocast("cpu", torch.bfloat16):
        out = module.output(x, ctx)
    out.float().square().sum().backward()
    if x.grad is None or not torch.isfinite(x.grad).all():
        raise BrokenPromise(
            "finite gradients under autocast",
            "nan or infinity",
            "compute exponents in float32: at_least_float32(x)",
        )
    expect_near(out, expected, real_pieces(ctx).T, "autocast")


def half_precision_is_close(
    specification: str, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> None:
    """Check that in half precision the output is close to that in float32."""
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float)
    expected = module.output(x, ctx)
    out = module.to(device, dtype).output(x.to(device, dtype), moved(ctx, device))
    if out.dtype != dtype:
        raise BrokenPromise(f"an output in {dtype}", str(out.dtype), "end with .type_as(q)")
    expect_near(out.cpu(), expected, real_pieces(ctx).T, str(dtype))


def expect_near(out: Tensor, expected: Tensor, real: Tensor, where: str) -> None:
    """Raise a BrokenPromise if two outputs differ by more than the rounding errors of bfloat16."""
    near = 0.05 * max(1.0, float(expected[real].detach().abs().max()))
    if not torch.allclose(out.float()[real], expected[real], rtol=0.05, atol=near):
        difference = largest_difference(out.float()[real], expected[real])
        raise BrokenPromise(
            f"approximately the same output with {where} as with float32",
            f"a difference of {difference:.2g}",
            "compute positions and exponents in float32: at_least_float32(x)",
        )


def steps_are_the_whole(specification: str) -> None:
    """Check that incremental decoding gives the same output as one pass over the sentence."""
    require_decoder(specification)
    module = attention(specification)
    look = "causal_safe = True promises that nothing depends on later pieces, nor on their number"
    for left in (False, True):
        whole = replace(context(TREES, left=left), tree=None, causal=True)
        x = inputs(TREES, whole, left)
        expected, weights = module.with_weights(x, whole)
        if (weights.triu(1) != 0).any():
            raise BrokenPromise("no weight on later pieces", "some", look)
        for count in (1, 3):  # queries
            for end in range(count, whole.length + 1):
                real = real_pieces(whole)[:, :end]
                brackets = None if whole.brackets is None else whole.brackets[:, :end]
                ctx = AttentionContext(
                    end, x.device, real, queries=count, causal=True, brackets=brackets
                )
                q, k, v = module.project(x[:end])
                out, _ = module.attend(x[end - count : end], q[:, :, -count:], k, v, ctx)
                new = real[:, -count:].T
                expect_same(
                    out[new],
                    expected[end - count : end][new],
                    "the same output step by step and in one pass of a decoder",
                    look,
                )


def require_decoder(specification: str) -> None:
    """Raise NotApplicable unless all mechanisms can be used in a decoder."""
    for mechanism in mechanisms_of(specification):
        if not mechanism.causal_safe:
            raise NotApplicable(f"{mechanism.name} is for encoders only (causal_safe = False)")
        if issubclass(mechanism, (PreAttention, PostAttention)):
            raise NotApplicable("it acts before or after attention, which only encoders support")
        if mechanism.needs_tree:
            raise BrokenPromise(
                "needs_tree = False with causal_safe = True",
                "needs_tree = True",
                "a target sentence has no tree, so remove causal_safe",
            )
