"""Cross-entropy with smoothed labels is computed from the scores of all words in one place.

With the smoothing e, V words and p = softmax(s), the loss of a target t is

    (1 - e - e') (-log p_t) + e' sum_v (-log p_v),  e' = e / (V - 1)

as in fairseq. Its gradient by s_v is p_v - e', and at t besides -(1 - e - e'). Rows of scores are
taken in parts small enough for a cache, and the gradient is written over the scores, which nobody
reads after that. So there is never a second tensor of their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.core.attention.mechanism import at_least_float32

PART = {"cpu": 2**18, "cuda": 2**24}  # scores that are worked on at once


def smoothed_cross_entropy(
    scores: Tensor, targets: Tensor, smoothing: float, ignored: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses, and that of -log p_t, which has no gradient.

    scores: N V. targets: N, the words' numbers, of which rows with `ignored` count nothing. The
    scores are gone after the backward pass, which may run once.
    """
    found: tuple[Tensor, Tensor] = Smoothed.apply(  # type: ignore[no-untyped-call]  # torch has none
        scores, targets, smoothing, ignored
    )
    return found


class Smoothed(torch.autograd.Function):
    """Computes what `smoothed_cross_entropy` returns, and the gradient."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, targets: Tensor, smoothing: float, ignored: int
    ) -> tuple[Tensor, Tensor]:
        real = targets != ignored
        share = smoothing / (scores.size(1) - 1)  # e'
        logs, of_targets, sums = (
            torch.cat(numbers) for numbers in zip(*of_parts(scores, targets), strict=True)
        )
        nll = ((logs - of_targets) * real).sum()
        smooth = ((logs * scores.size(1) - sums) * real).sum()
        ctx.save_for_backward(scores, targets, logs, real)
        ctx.shares, ctx.spent = (1 - smoothing - share, share), False
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing - share) * nll + share * smooth, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.spent:
            raise RuntimeError("the scores are gone: call backward once")
        ctx.spent = True
        scores, targets, logs, real = ctx.saved_tensors
        of_target, share = ctx.shares
        scale = (real * gradient)[:, None]
        for rows in parts(scores):
            part = scores[rows]
            wide = at_least_float32(part)  # the part itself, or a copy of it
            wide.sub_(logs[rows, None]).exp_().sub_(share)
            at = targets[rows, None]
            wide.scatter_add_(1, at, torch.full_like(at, -of_target, dtype=wide.dtype))
            wide.mul_(scale[rows])
            if wide is not part:
                part.copy_(wide)
        return scores, None, None, None


def of_parts(scores: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield of each part of the rows: log sum exp s, the scores of the targets, and all summed."""
    for rows in parts(scores):
        wide = at_least_float32(scores[rows])
        of_targets = wide.gather(1, targets[rows, None])[:, 0]
        yield wide.logsumexp(dim=1), of_targets, wide.sum(dim=1)


def parts(scores: Tensor) -> Iterator[slice]:
    """Yield the rows of each part."""
    size = max(1, PART.get(scores.device.type, PART["cuda"]) // scores.size(1))
    for start in range(0, len(scores), size):
        yield slice(start, start + size)
