"""Label-smoothed cross-entropy that overwrites the scores with their gradient to save memory.

For label smoothing e, a vocabulary of V words and p = softmax(s), the loss of a target t is

    (1 - e - e') (-log p_t) + e' sum_v (-log p_v),  e' = e / (V - 1)

as in fairseq. Its derivative with respect to s_v is p_v - e'; if v = t, (1 - e - e') is also
subtracted. The scores are processed in chunks of rows that fit into a cache. The gradient
overwrites the scores, so a second tensor of the same size is not needed. In addition,
`projected_cross_entropy` never stores the full score tensor.

`TableGradient` accumulates the gradient of an embedding table that a model uses several times. A
Transformer may share one table between the embeddings and the output projection. In this case,
torch allocates a gradient of the full table for each use, although the gradient of an embedding is
mostly zero, and sums these gradients. Here, all gradients are accumulated in place in one tensor,
and each embedding adds only the rows of the words in the batch.

    total = TableGradient()
    table = shared(weight, total)
    x = rows(table, words, padding, total)
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.core.attention.mechanism import at_least_float32


class TableGradient:
    """Accumulates the gradients of a shared table during the backward pass."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None

    def add(self, gradient: Tensor) -> None:
        """Add a gradient of the full table; the first gradient is stored without a copy."""
        self.sum = gradient if self.sum is None else self.sum.add_(gradient)

    def add_rows(self, table: Tensor, words: Tensor, gradients: Tensor) -> None:
        """Add gradients to some rows of the table.

        words: indices of the rows, of shape (N,); duplicates are allowed.
        gradients: tensor of shape (N, D).
        """
        if self.sum is None:
            self.sum = torch.zeros_like(table)
        self.sum.index_add_(0, words, gradients)

    def take(self) -> Tensor | None:
        """Return the sum and reset it, or return None if no gradient has been added."""
        found, self.sum = self.sum, None
        return found


def shared(weight: Tensor, total: TableGradient) -> Tensor:
    """Return a view of `weight`, which must be passed to all uses of the table.

    In the backward pass, the accumulated total becomes the gradient of `weight`.
    """
    table: Tensor = Shared.apply(weight, total)  # type: ignore[no-untyped-call]  # torch has none
    return table


def rows(table: Tensor, words: Tensor, padding: int | None, total: TableGradient) -> Tensor:
    """Return the embeddings of words, of shape (..., D); the padding row receives no gradient."""
    found: Tensor = Rows.apply(table, words, padding, total)  # type: ignore[no-untyped-call]
    return found


class Shared(torch.autograd.Function):
    """Returns the table and, in the backward pass, the total of its gradients.

    This backward pass runs after those of all uses of the table.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, total: TableGradient) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.total = total
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, other: Tensor | None) -> tuple[Tensor | None, None]:
        if other is not None:  # from uses that do not add to the total
            ctx.total.add(other)
        return ctx.total.take(), None


class Rows(torch.autograd.Function):
    """An embedding look-up that adds its gradient to the total."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, words: Tensor, padding: int | None, total: TableGradient
    ) -> Tensor:
        ctx.save_for_backward(table, words)
        ctx.padding, ctx.total = padding, total
        return F.embedding(words, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        table, words = ctx.saved_tensors
        words, gradients = words.flatten(), gradient.flatten(0, -2)
        if ctx.padding is not None:
            real = (words != ctx.padding).nonzero()[:, 0]
            words, gradients = words.index_select(0, real), gradients.index_select(0, real)
        ctx.total.add_rows(table, words, gradients)
        return None, None, None, None


PART = {"cpu": 2**18, "cuda": 2**24}  # scores per chunk
# Scores per matrix product, large enough for efficient products; the value for CUDA is a guess.
MADE = {"cpu": 2**23, "cuda": 2**26}


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
    features = features.type_as(table)  # under autocast, their types may differ
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
            to_gradient(scores[rows], targets[rows], logs[rows], ctx.smoothing, scale[rows])
        return scores, None, None, None


class Projected(torch.autograd.Function):
    """Implements `projected_cross_entropy`.

    Scores, loss and gradients are computed chunk by chunk, and only the gradients are stored. The
    gradients of the table are summed in at least float32.
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
        wide = torch.promote_types(table.dtype, torch.float32)
        summed_in_place = len(features) and wide == table.dtype
        of_table = None if summed_in_place else torch.zeros_like(table, dtype=wide)
        room = torch.empty(0)
        for rows in parts(features, words, MADE.get(features.device.type, MADE["cuda"])):
            room = room if len(room) else features.new_empty(len(features[rows]), words)
            scores = torch.mm(features[rows], table.T, out=room[: len(features[rows])])
            sums.append(sums_of_rows(scores, targets[rows]))
            if any(ctx.needs_input_grad):
                for part in parts(scores):
                    to_gradient(scores[part], targets[rows][part], sums[-1][0][part], smoothing)
                torch.mm(scores, table, out=of_features[rows])
                if of_table is None:
                    of_table = scores.T @ features[rows]
                elif summed_in_place:
                    of_table.addmm_(scores.T, features[rows])
                else:
                    of_table += scores.T @ features[rows]
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
        if gradient.device.type != "cpu" or gradient != 1:  # no synchronisation with a GPU
            of_features, of_table = of_features.mul_(gradient), of_table.mul_(gradient)
        of_table = of_table.type_as(of_features)
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


def to_gradient(
    scores: Tensor, targets: Tensor, logs: Tensor, smoothing: float, scale: Tensor | None = None
) -> None:
    """Overwrite the scores with the gradient of the loss of each row, multiplied by `scale`."""
    share = smoothing / (scores.size(1) - 1)  # e'
    wide = at_least_float32(scores)  # the scores themselves, or a float32 copy
    wide.sub_(logs[:, None]).exp_().sub_(share)
    at = targets[:, None]
    wide.scatter_add_(1, at, torch.full_like(at, smoothing + share - 1, dtype=wide.dtype))
    if scale is not None:
        wide.mul_(scale)
    if wide is not scores:
        scores.copy_(wide)


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
