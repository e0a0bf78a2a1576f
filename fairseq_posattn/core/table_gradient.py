"""Accumulate the gradient of an embedding table that a model uses several times.

A Transformer may share one table between the embeddings and the output projection. In this case,
torch allocates a gradient of the full table for each use, although the gradient of an embedding is
mostly zero, and sums these gradients. Here, all gradients are accumulated in place in one tensor,
and each embedding adds only the rows of the words in the batch.

    total = TableGradient()
    table = shared(weight, total)
    x = rows(table, words, padding, total)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


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
