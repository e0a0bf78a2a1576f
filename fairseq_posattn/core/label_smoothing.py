"""Cross-entropy with smoothed labels is computed from the scores of all words in one place.

With the smoothing e, V words and p = softmax(s), the loss of a target t is

    (1 - e - e') (-log p_t) + e' sum_v (-log p_v),  e' = e / (V - 1)

as in fairseq. Its gradient by s_v is p_v - e', and at t besides -(1 - e - e'). Rows of scores are
taken in parts small enough for a cache, and the gradient is written over the scores, which nobody
reads after that. So there is never a second tensor of their size, and none at all where the scores
are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.table_gradient import TableGradient

PART = {"cpu": 2**18, "cuda": 2**24}  # scores that are worked on at once
MADE = 2**23  # scores that are computed at once: enough rows for fast products


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


def projected_cross_entropy(
    features: Tensor,
    table: Tensor,
    targets: Tensor,
    smoothing: float,
    ignored: int,
    total: TableGradient | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `smoothed_cross_entropy` returns of the scores features · tableᵀ.

    features: N D. table: V D. targets: N. total: gets the gradient of the table, if it is given.
    Scores of ignored rows are not computed. The backward pass may run once.
    """
    real = (targets != ignored).nonzero()[:, 0]
    features, targets = features.index_select(0, real), targets.index_select(0, real)
    found: tuple[Tensor, Tensor] = Projected.apply(  # type: ignore[no-untyped-call]  # torch has none
        features, table, targets, smoothing, total
    )
    return found


class Smoothed(torch.autograd.Function):
    """Computes what `smoothed_cross_entropy` returns, and the gradient."""

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
            raise RuntimeError("the scores are gone: call backward once")
        ctx.spent = True
        scores, targets, logs, real = ctx.saved_tensors
        scale = (real * gradient)[:, None]
        for rows in parts(scores):
            part = scores[rows]
            wide = at_least_float32(part)  # the part itself, or a copy of it
            to_gradient(wide, targets[rows], logs[rows], ctx.smoothing)
            wide.mul_(scale[rows])
            if wide is not part:
                part.copy_(wide)
        return scores, None, None, None


class Projected(torch.autograd.Function):
    """Computes scores, loss and gradients of some rows at a time, and keeps the gradients only."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        table: Tensor,
        targets: Tensor,
        smoothing: float,
        total: TableGradient | None,
    ) -> tuple[Tensor, Tensor]:
        words, sums = len(table), [[features.new_zeros(0)] * 3]  # where all rows are ignored
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
            raise RuntimeError("the gradients are gone: call backward once")
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
    """Replace scores by the gradient of the loss of each row."""
    share = smoothing / (scores.size(1) - 1)  # e'
    scores.sub_(logs[:, None]).exp_().sub_(share)
    at = targets[:, None]
    scores.scatter_add_(1, at, torch.full_like(at, smoothing + share - 1, dtype=scores.dtype))


def sums_of_rows(scores: Tensor, targets: Tensor) -> list[Tensor]:
    """Return of each row: log sum exp s, the score of the target, and the sum of all scores."""
    return [torch.cat(numbers) for numbers in zip(*of_parts(scores, targets), strict=True)]


def of_parts(scores: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield what `sums_of_rows` returns of each part of the rows."""
    for rows in parts(scores):
        wide = at_least_float32(scores[rows])
        of_targets = wide.gather(1, targets[rows, None])[:, 0]
        yield wide.logsumexp(dim=1), of_targets, wide.sum(dim=1)


def parts(rows: Tensor, width: int | None = None, room: int | None = None) -> Iterator[slice]:
    """Yield the rows of each part, such that a part has room for its rows of some width."""
    room = PART.get(rows.device.type, PART["cuda"]) if room is None else room
    size = max(1, room // (width or rows.size(1)))
    for start in range(0, len(rows), size):
        yield slice(start, start + size)
