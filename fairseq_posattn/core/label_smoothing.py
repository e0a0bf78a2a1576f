"""Label-smoothed cross-entropy that overwrites the scores with their gradient to save memory.

For label smoothing e, a vocabulary of V words and p = softmax(s), the loss of a target t is

    (1 - e - e') (-log p_t) + e' sum_v (-log p_v),  e' = e / (V - 1)

as in fairseq. Its derivative with respect to s_v is p_v - e'; if v = t, (1 - e - e') is also
subtracted. The scores are processed in chunks of rows that fit into a cache. The gradient
overwrites the scores, so a second tensor of the same size is not needed. In addition,
`projected_cross_entropy` never stores the full score tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.table_gradient import TableGradient

PART = {"cpu": 2**18, "cuda": 2**24}  # scores per chunk
MADE = 2**23  # scores per matrix product; large enough for efficient products


def smoothed_cross_entropy(
    scores: Tensor, targets: Tensor, smoothing: float, ignored: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses, and the sum of -log p_t, which has no gradient.

    The backward pass overwrites the scores, so it can be run only once.

    scores: tensor of shape (N, V).
    targets: word indices of shape (N,). Rows whose target is `ignored` do not contribute.
    """
    found: tuple[Tensor, Tensor] = Smoothed.apply(  # type: ignore[no-untyped-call]  # torch has none
        scores, targets, smoothing, ignored
    )
    return found


def projected_cross_entropy(
    features: Tensor,
    table: Tensor,
    targets: Tensor,
    smoothing: float,
    ignored: int,
    total: TableGradient | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `smoothed_cross_entropy` of the scores features · tableᵀ.

    Rows whose target is `ignored` are skipped. The backward pass can be run only once.

    features: tensor of shape (N, D).
    table: tensor of shape (V, D).
    targets: word indices of shape (N,).
    total: if given, the gradient of the table is added to it.
    """
    real = (targets != ignored).nonzero()[:, 0]
    features, targets = features.index_select(0, real), targets.index_select(0, real)
    found: tuple[Tensor, Tensor] = Projected.apply(  # type: ignore[no-untyped-call]  # torch has none
        features, table, targets, smoothing, total
    )
    return found


class Smoothed(torch.autograd.Function):
    """Implements `smoothed_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, targets: Tensor, smoothing: float, ignored: int
    ) -> tuple[Tensor, Tensor]:
        real = targets != ignored
        logs, of_targets, sums = sums_of_rows(scores, targets)
        words = scores.size(1)
        loss, nll = losses(logs * real, of_targets * real, sums * real, smoothing, words)
        ctx.save_for_backward(scores, targets, logs, real)
        ctx.smoothing, ctx.spent = smoothing, False
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.spent:
            raise RuntimeError("backward has overwritten the scores; call it only once")
        ctx.spent = True
        scores, targets, logs, real = ctx.saved_tensors
        scale = (real * gradient)[:, None]
        for rows in parts(scores):
            part = scores[rows]
            wide = at_least_float32(part)  # the part itself, or a float32 copy
            to_gradient(wide, targets[rows], logs[rows], ctx.smoothing)
            wide.mul_(scale[rows])
            if wide is not part:
                part.copy_(wide)
        return scores, None, None, None


class Projected(torch.autograd.Function):
    """Implements `projected_cross_entropy`.

    Scores, loss and gradients are computed chunk by chunk, and only the gradients are stored.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        table: Tensor,
        targets: Tensor,
        smoothing: float,
        total: TableGradient | None,
    ) -> tuple[Tensor, Tensor]:
        words, sums = len(table), [[features.new_zeros(0)] * 3]  # in case all rows are ignored
        of_features = torch.empty_like(features)
        of_table = None if len(features) else torch.zeros_like(table)
        room = torch.empty(0)
        for rows in parts(features, words, MADE):
            room = room if len(room) else features.new_empty(len(features[rows]), words)
            scores = torch.mm(features[rows], table.T, out=room[: len(features[rows])])
            sums.append(sums_of_rows(scores, targets[rows]))
            if any(ctx.needs_input_grad):
                for part in parts(scores):
                    to_gradient(scores[part], targets[rows][part], sums[-1][0][part], smoothing)
                torch.mm(scores, table, out=of_features[rows])
                if of_table is None:
                    of_table = scores.T @ features[rows]
                else:
                    of_table.addmm_(scores.T, features[rows])
        ctx.gradients, ctx.total = (of_features, of_table), total
        logs, of_targets, all_summed = (torch.cat(each) for each in zip(*sums, strict=True))
        loss, nll = losses(logs, of_targets, all_summed, smoothing, words)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("backward has released the gradients; call it only once")
        (of_features, of_table), ctx.gradients = ctx.gradients, None
        if gradient != 1:
            of_features, of_table = of_features.mul_(gradient), of_table.mul_(gradient)
        if ctx.total is None:
            return of_features, of_table, None, None, None
        ctx.total.add(of_table)
        return of_features, None, None, None, None


def losses(
    logs: Tensor, of_targets: Tensor, sums: Tensor, smoothing: float, words: int
) -> tuple[Tensor, Tensor]:
    share = smoothing / (words - 1)  # e'
    nll = (logs - of_targets).sum()
    return (1 - smoothing - share) * nll + share * (logs * words - sums).sum(), nll


def to_gradient(scores: Tensor, targets: Tensor, logs: Tensor, smoothing: float) -> None:
    """Overwrite the scores with the gradient of the loss of each row."""
    share = smoothing / (scores.size(1) - 1)  # e'
    scores.sub_(logs[:, None]).exp_().sub_(share)
    at = targets[:, None]
    scores.scatter_add_(1, at, torch.full_like(at, smoothing + share - 1, dtype=scores.dtype))


def sums_of_rows(scores: Tensor, targets: Tensor) -> list[Tensor]:
    """Return the log-sum-exp, the score of the target and the sum of the scores for each row."""
    found = []
    for rows in parts(scores):
        wide = at_least_float32(scores[rows])
        of_targets = wide.gather(1, targets[rows, None])[:, 0]
        found.append((wide.logsumexp(dim=1), of_targets, wide.sum(dim=1)))
    return [torch.cat(numbers) for numbers in zip(*found, strict=True)]


def parts(rows: Tensor, width: int | None = None, room: int | None = None) -> Iterator[slice]:
    """Yield slices of rows of `width` elements, each of at most `room` elements or one row."""
    room = PART.get(rows.device.type, PART["cuda"]) if room is None else room
    size = max(1, room // (width or rows.size(1)))
    for start in range(0, len(rows), size):
        yield slice(start, start + size)
