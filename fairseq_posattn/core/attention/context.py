"""The context is what a mechanism may look at; all layers share the one of their batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from fairseq_posattn.core.once import once
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.errors import InputError

Made = TypeVar("Made")
is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)  # torch 2.1 has none


@dataclass
class AttentionContext:
    """A context says what self-attention may know of a batch: padding, positions, distances, trees.

    The keys are all pieces. The queries are all pieces too, or the last `queries` of them when a
    decoder works step by step; in a block of `bands` they begin at the column `first`. `real` is
    None where nothing is padded. Padding may lie on either side, so a mechanism takes its indices
    from here and never counts columns itself.
    """

    length: int  # of the keys
    device: torch.device
    real: Tensor | None = None  # B K, True = a real piece
    tree: SourceTree | None = None
    queries: int = None  # type: ignore[assignment]  # None: all of them, see __post_init__
    causal: bool = False  # no query sees what comes after it
    cache: dict[Hashable, Any] = field(default_factory=dict)
    first: int = None  # type: ignore[assignment]  # the first query's column; None: see above
    brackets: Tensor | None = None  # B K, how many are open after each piece of a target
    looks: list[Tensor] = field(default_factory=list)  # B Q K, of each layer with `tree_walk`
    memory: dict[str, Tensor] | None = None  # step by step: what a layer has kept of earlier steps

    @classmethod
    def from_padding(
        cls, padding: Tensor, tree: SourceTree | None = None, causal: bool = False
    ) -> AttentionContext:
        """Return the context of a padded batch. padding: bool, B T, True = padding, as the
        key_padding_mask of torch; causal: no query sees what comes after it.

        Under torch.compile nothing can be read, so some padding is assumed, and no empty sentence.
        """
        real = ~padding
        if is_compiling():
            ctx = cls(padding.size(1), padding.device, real, tree, causal=causal)
            ctx.padded_before, ctx.nothing_allowed = True, False
            return ctx
        lengths = real.sum(dim=1)
        # The program waits for the device here, once for all that it must know of the batch.
        facts = torch.stack([lengths.min(), lengths.max(), padding[:, :1].any().long()])
        shortest, longest, before = facts.tolist()
        some = shortest < padding.size(1)
        ctx = cls(padding.size(1), padding.device, real if some else None, tree, causal=causal)
        ctx.longest, ctx.padded_before = longest, bool(before)
        ctx.nothing_allowed = some and not shortest
        return ctx

    def __post_init__(self) -> None:
        self.queries = self.length if self.queries is None else self.queries
        self.first = self.length - self.queries if self.first is None else self.first

    @property
    def given_tree(self) -> SourceTree:
        """Return the trees of the batch; refuse a batch without any."""
        if self.tree is None:
            raise InputError(
                "this attention reads dependency trees, and the batch has none; give its "
                "AttentionContext a tree=SourceTree.from_parents(...)"
            )
        return self.tree

    @once
    def allowed(self) -> Tensor | None:
        """Return which keys are no padding, B 1 1 K; None if none is padded."""
        return None if self.real is None else self.real[:, None, None, :]

    @once
    def past(self) -> Tensor | None:
        """Return which keys do not come after the query, 1 1 Q K; None if all may be seen."""
        return self.distances[None, None] <= 0 if self.causal and self.queries > 1 else None

    @once
    def nothing_allowed(self) -> bool:
        """Tell whether some sentence has no real piece, so that its rows must come out as zeros."""
        return self.real is not None and not bool(self.real.any(dim=1).all())

    @once
    def distances(self) -> Tensor:
        """Return the position of each key minus that of each query, Q K; padding shifts both."""
        columns = torch.arange(self.length, device=self.device)
        return columns[None, :] - self.of_queries(columns[None]).T

    @once
    def positions(self) -> Tensor:
        """Return the positions of the pieces, counted from 0, and -1 before the first piece.

        They are B K, or 1 K if nothing is padded."""
        if self.real is None:
            return torch.arange(self.length, device=self.device)[None]
        return self.real.long().cumsum(dim=1) - 1

    @once
    def lengths(self) -> Tensor:
        """Return the number of real pieces of each sentence: B, or 1 if nothing is padded."""
        if self.real is None:
            return torch.full((1,), self.length, device=self.device)
        return self.real.sum(dim=1)

    @once
    def longest(self) -> int:
        """Return the number of real pieces of the longest sentence."""
        return self.length if self.real is None else int(self.lengths.max())

    @property
    def query_positions(self) -> Tensor:
        """Return the positions of the queries: B Q, or 1 Q if nothing is padded."""
        return self.of_queries(self.positions)

    @property
    def real_queries(self) -> Tensor | None:
        """Return which queries are no padding, B Q; None if none is padded."""
        return None if self.real is None else self.of_queries(self.real)

    def of_queries(self, x: Tensor) -> Tensor:
        """Return those columns of x, B K, that are queries: B Q."""
        return x[:, self.first : self.first + self.queries]

    def with_earlier(self, name: str, now: Tensor) -> Tensor:
        """Return what a layer has made in all steps, B T ..., from that of the queries, B Q ...

        Step by step it is kept for the next ones under this name.
        """
        if self.memory is None:
            return now
        earlier = self.memory.get(name)
        self.memory[name] = now if earlier is None else torch.cat([earlier, now], dim=1)
        return self.memory[name]

    @once
    def steps_before(self) -> Tensor:
        """Return the column of the piece before each query, B Q; -1 where there is none."""
        columns = self.first + torch.arange(self.queries, device=self.device) - 1
        return torch.where(self.query_positions > 0, columns, -1)

    @property
    def is_square(self) -> bool:
        """Tell whether the queries are the keys, so that a matrix of pairs is a square."""
        return self.queries == self.length

    def from_diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return how far each key lies from the diagonal of each query, broadcastable to B H Q K.

        In self-attention the diagonal is the query itself, and `ratio` has no meaning. In
        cross-attention `CrossContext` says where it is.
        """
        return self.distances[None, None]

    @once
    def padded_before(self) -> bool:
        """Tell whether padding stands before some sentence."""
        return self.real is not None and not bool(self.real[:, 0].all())

    @once
    def front(self) -> Tensor | None:
        """Return the column of each position, B K, with padding after the last position.

        It is None where no padding stands before any sentence, since columns are positions then."""
        if self.real is None or not self.padded_before:
            return None
        return torch.argsort(~self.real, dim=1, stable=True)

    @once
    def back(self) -> Tensor | None:
        """Return the position of each column, B K, which undoes `front`; None where that is."""
        return None if self.front is None else self.front.argsort(dim=1)

    def to_front(self, square: Tensor) -> Tensor:
        """Return a square B H K K whose rows and columns are positions, from one by columns."""
        return square if self.front is None else permuted(square, self.front)

    def from_front(self, square: Tensor) -> Tensor:
        """Return a square B H K K whose rows and columns are columns again."""
        return square if self.back is None else permuted(square, self.back)

    def rows_to_front(self, x: Tensor) -> Tensor:
        """Return x, T B C, with the first piece of each sentence in the first row."""
        return x if self.front is None else permuted_rows(x, self.front)

    def rows_from_front(self, x: Tensor) -> Tensor:
        """Return x, T B C, with the rows back in the columns that they came from."""
        return x if self.back is None else permuted_rows(x, self.back)

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` returned for this key, which is called by the first layer only.

        The key must name every option that the result depends on. The result must have no
        gradient, because layers run twice under activation checkpointing."""
        if key not in self.cache:
            self.cache[key] = make()
        made: Made = self.cache[key]
        return made


def permuted(square: Tensor, order: Tensor) -> Tensor:
    """Return a square, B H K K, with its rows and columns in the order that B K lists."""
    pairs = order[:, :, None] * square.size(-1) + order[:, None, :]  # B K K
    index = pairs.flatten(1)[:, None].expand(-1, square.size(1), -1)
    flat = square.flatten(2).expand(len(order), -1, -1)
    return flat.gather(-1, index).view(len(order), *square.shape[1:])


def permuted_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return x, T B C, with the rows of each sentence in the order that B T lists."""
    batch = torch.arange(x.size(1), device=x.device)
    rows = order.T * x.size(1) + batch  # T B
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(x.shape)
