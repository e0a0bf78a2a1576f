"""Sum the gradient of a table in place if a model uses the table several times.

A Transformer may share one table between embeddings and output projection. torch then allocates a
gradient of the whole table for each use, mostly zeros, and adds them up. Here the output projection
provides the first gradient, and each embedding adds the rows of its words:

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
    """The sum of the gradients of a shared table so far."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None

    def add(self, gradient: Tensor) -> None:
        """Add a gradient of the whole table; the first one is stored without a copy."""
        self.sum = gradient if self.sum is None else self.sum.add_(gradient)

    def add_rows(self, table: Tensor, words: Tensor, gradients: Tensor) -> None:
        """Add gradients, N D, to the rows of these words, N, which may contain duplicates."""
        if self.sum is None:
            self.sum = torch.zeros_like(table)
        self.sum.index_add_(0, words, gradients)

    def take(self) -> Tensor | None:
        """Return the sum and reset it; None if nothing was added."""
        found, self.sum = self.sum, None
        return found


def shared(weight: Tensor, total: TableGradient) -> Tensor:
    """Return the table for all uses; the gradient of `weight` is then the total."""
    table: Tensor = Shared.apply(weight, total)  # type: ignore[no-untyped-call]  # torch has none
    return table


def rows(table: Tensor, words: Tensor, padding: int | None, total: TableGradient) -> Tensor:
    """Return the embeddings of words, ... D; the row of padding receives no gradient."""
    found: Tensor = Rows.apply(table, words, padding, total)  # type: ignore[no-untyped-call]
    return found


class Shared(torch.autograd.Function):
    """Returns the table; its backward pass runs after those of all uses, and returns the total."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, total: TableGradient) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.total = total
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, other: Tensor | None) -> tuple[Tensor | None, None]:
        if other is not None:  # from a use without the total
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
