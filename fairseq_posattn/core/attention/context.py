"""What a mechanism may look at: built once for a batch, shared by all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from fairseq_posattn.core.positions.tree import SourceTree

Made = TypeVar("Made")


@dataclass
class AttentionContext:
    """The batch as self-attention sees it. Keys are all pieces; queries are the same, or in
    incremental decoding the last `queries` of them.

    `real` is None where nothing is padded. Padding may lie on either side: a mechanism takes its
    indices from here and never counts columns itself.
    """

    length: int  # of the keys
    device: torch.device
    real: Tensor | None = None  # B K, True = a real piece
    tree: SourceTree | None = None
    queries: int = None  # type: ignore[assignment]  # None: __post_init__ puts the length there
    causal: bool = False  # no query sees what comes after it
    cache: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queries = self.length if self.queries is None else self.queries

    @cached_property
    def allowed(self) -> Tensor | None:
        """B 1 1 K, True = may be attended to; None = all of them."""
        return None if self.real is None else self.real[:, None, None, :]

    @cached_property
    def past(self) -> Tensor | None:
        """1 1 Q K, True = not after the query; None where there is no such key."""
        return self.distances[None, None] <= 0 if self.causal and self.queries > 1 else None

    @cached_property
    def nothing_allowed(self) -> bool:
        """Whether some sentence has no real piece, so that its rows must come out as zeros."""
        return self.real is not None and not bool(self.real.any(dim=1).all())

    @cached_property
    def distances(self) -> Tensor:
        """Q K: position of the key minus position of the query. Padding shifts both alike."""
        columns = torch.arange(self.length, device=self.device)
        return columns[None, :] - columns[self.length - self.queries :, None]

    @cached_property
    def positions(self) -> Tensor:
        """B K, or 1 K without padding: the pieces counted from 0; -1 before the first one."""
        if self.real is None:
            return torch.arange(self.length, device=self.device)[None]
        return self.real.long().cumsum(dim=1) - 1

    @cached_property
    def lengths(self) -> Tensor:
        """B, or 1 without padding: the real pieces of each sentence."""
        if self.real is None:
            return torch.tensor([self.length], device=self.device)
        return self.real.sum(dim=1)

    @cached_property
    def front(self) -> Tensor | None:
        """B K: the column of each position, padding after the last; None: all stand there already,
        no padding before any sentence."""
        if self.real is None or bool(self.real[:, 0].all()):
            return None
        return torch.argsort(~self.real, dim=1, stable=True)

    def to_front(self, square: Tensor) -> Tensor:
        """B H K K by columns -> by positions."""
        return square if self.front is None else permuted(square, self.front)

    def from_front(self, square: Tensor) -> Tensor:
        """B H K K by positions -> by columns."""
        return square if self.front is None else permuted(square, self.front.argsort(dim=1))

    def rows_to_front(self, x: Tensor) -> Tensor:
        """T B C by columns -> by positions."""
        return x if self.front is None else permuted_rows(x, self.front)

    def rows_from_front(self, x: Tensor) -> Tensor:
        """T B C by positions -> by columns."""
        return x if self.front is None else permuted_rows(x, self.front.argsort(dim=1))

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What several layers need in the same form is made once. Nothing with a gradient: with
        activation checkpointing the layers run twice."""
        if key not in self.cache:
            self.cache[key] = make()
        made: Made = self.cache[key]
        return made


def permuted(square: Tensor, order: Tensor) -> Tensor:
    """B H K K with rows and columns in the order B K."""
    pairs = order[:, :, None] * square.size(-1) + order[:, None, :]  # B K K
    index = pairs.flatten(1)[:, None].expand(-1, square.size(1), -1)
    flat = square.flatten(2).expand(len(order), -1, -1)
    return flat.gather(-1, index).view(len(order), *square.shape[1:])


def permuted_rows(x: Tensor, order: Tensor) -> Tensor:
    """T B C with the rows of each sentence in the order B T."""
    batch = torch.arange(x.size(1), device=x.device)
    rows = order.T * x.size(1) + batch  # T B
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(x.shape)
