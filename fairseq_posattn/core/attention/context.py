"""The information about a batch that mechanisms can read; all layers share one context."""

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
is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)  # missing in torch 2.1


@dataclass
class AttentionContext:
    """Padding, positions, distances and trees of a batch, for self-attention.

        ctx = AttentionContext.from_padding(padding)  # bool, B T, True = padding
        out, weights = layer(x, ctx)  # x: T B C

    The keys are all pieces. The queries are also all pieces or, in incremental decoding, the last
    `queries` pieces. In a block of `bands`, the queries start at column `first`. Padding may be on
    either side, so mechanisms must use the positions and distances of the context instead of column
    indices.
    """

    length: int  # number of keys, including padding
    device: torch.device
    real: Tensor | None = None  # B K, True = not padding; None: no padding
    tree: SourceTree | None = None
    queries: int = None  # type: ignore[assignment]  # None: all of them, see __post_init__
    causal: bool = False  # whether a query must not attend to later keys
    cache: dict[Hashable, Any] = field(default_factory=dict)
    first: int = None  # type: ignore[assignment]  # first query's column; None: length - queries
    brackets: Tensor | None = None  # B K, number of open brackets after each piece of a target
    looks: list[Tensor] = field(default_factory=list)  # B Q K: weights of each `tree_walk`
    memory: dict[str, Tensor] | None = None  # tensors of earlier steps in incremental decoding

    @classmethod
    def from_padding(
        cls, padding: Tensor, tree: SourceTree | None = None, causal: bool = False
    ) -> AttentionContext:
        """Return the context of a padded batch.

        Under torch.compile, the values of the mask cannot be read. In this case, the batch is
        assumed to contain padding but no empty sentence.

        padding: boolean mask of shape (B, T), where True marks padding, as in torch's
            key_padding_mask.
        """
        real = ~padding
        if is_compiling():
            ctx = cls(padding.size(1), padding.device, real, tree, causal=causal)
            ctx.padded_before, ctx.nothing_allowed = True, False
            return ctx
        lengths = real.sum(dim=1)
        # The only synchronisation with the device per batch.
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
        """Return the trees of the batch; raise an InputError if it has none."""
        if self.tree is None:
            raise InputError(
                "this mechanism reads dependency trees, but the batch contains none; pass "
                "tree=SourceTree.from_parents(...) to its AttentionContext"
            )
        return self.tree

    @once
    def allowed(self) -> Tensor | None:
        """Return a mask of real keys, of shape (B, 1, 1, K), or None if there is no padding."""
        return None if self.real is None else self.real[:, None, None, :]

    def padding_bias(self, mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """Return a bias, (B, 1, 1, K), that replaces `mask`; None unless it masks only padding.

        For empty sentences and float16, where another bias could be lower, return None.
        """
        if dtype == torch.float16 or mask is None or mask is not self.allowed:
            return None
        if self.nothing_allowed:
            return None
        low = torch.finfo(dtype).min / 2  # added to a score, it stays finite
        return self.cached(("padding", dtype), lambda: (~mask).to(dtype) * low)

    @once
    def past(self) -> Tensor | None:
        """Return the causal mask, of shape (1, 1, Q, K), or None if all keys are allowed."""
        return self.distances[None, None] <= 0 if self.causal and self.queries > 1 else None

    @once
    def nothing_allowed(self) -> bool:
        """Return whether any sentence consists only of padding; its output must be zero."""
        return self.real is not None and not bool(self.real.any(dim=1).all())

    @once
    def distances(self) -> Tensor:
        """Return the position of each key minus that of each query, of shape (Q, K)."""
        columns = torch.arange(self.length, device=self.device)
        return columns[None, :] - self.of_queries(columns[None]).T

    @once
    def positions(self) -> Tensor:
        """Return 0-based positions (-1 for left padding), (B, K), or (1, K) without padding."""
        if self.real is None:
            return torch.arange(self.length, device=self.device)[None]
        return self.real.long().cumsum(dim=1) - 1

    @once
    def lengths(self) -> Tensor:
        """Return the number of pieces per sentence, of shape (B,), or (1,) without padding."""
        if self.real is None:
            return torch.full((1,), self.length, device=self.device)
        return self.real.sum(dim=1)

    @once
    def longest(self) -> int:
        """Return the number of pieces of the longest sentence, not counting padding."""
        return self.length if self.real is None else int(self.lengths.max())

    @property
    def query_positions(self) -> Tensor:
        """Return the positions of the queries, of shape (B, Q), or (1, Q) without padding."""
        return self.of_queries(self.positions)

    @property
    def real_queries(self) -> Tensor | None:
        """Return a mask of non-padding queries, of shape (B, Q), or None if there is no padding."""
        return None if self.real is None else self.of_queries(self.real)

    def of_queries(self, x: Tensor) -> Tensor:
        """Select the columns of the queries from x: (B, K) becomes (B, Q)."""
        return x[:, self.first : self.first + self.queries]

    def with_earlier(self, name: str, now: Tensor) -> Tensor:
        """Return a tensor for all steps so far, given its values for the current queries.

        The shape (B, Q, ...) becomes (B, T, ...). In incremental decoding, `memory` stores the
        result under this name for the next steps.
        """
        if self.memory is None:
            return now
        earlier = self.memory.get(name)
        self.memory[name] = now if earlier is None else torch.cat([earlier, now], dim=1)
        return self.memory[name]

    @once
    def steps_before(self) -> Tensor:
        """Return the column of the piece before each query, or -1, of shape (B, Q)."""
        columns = self.first + torch.arange(self.queries, device=self.device) - 1
        return torch.where(self.query_positions > 0, columns, -1)

    @property
    def is_square(self) -> bool:
        """Return whether queries and keys are the same pieces."""
        return self.queries == self.length

    def from_diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return the offset of each key from the diagonal, broadcastable to (B, H, Q, K).

        In self-attention, the diagonal is the position of the query, and `ratio` is ignored.
        `CrossContext` defines the diagonal for cross-attention.
        """
        return self.distances[None, None]

    @once
    def padded_before(self) -> bool:
        """Return whether any sentence is padded on the left."""
        return self.real is not None and not bool(self.real[:, 0].all())

    @once
    def front(self) -> Tensor | None:
        """Return the column order, (B, K), that puts padding last; None without left padding."""
        if self.real is None or not self.padded_before:
            return None
        return torch.argsort(~self.real, dim=1, stable=True)

    @once
    def back(self) -> Tensor | None:
        """Return the inverse permutation of `front`, of shape (B, K); None if `front` is None."""
        return None if self.front is None else self.front.argsort(dim=1)

    def to_front(self, square: Tensor) -> Tensor:
        """Move padding to the last rows and columns of a matrix of shape (B, H, K, K)."""
        return square if self.front is None else self.permuted(square, self.front)

    def from_front(self, square: Tensor) -> Tensor:
        """Undo `to_front`."""
        return square if self.back is None else self.permuted(square, self.back)

    def rows_to_front(self, x: Tensor) -> Tensor:
        """Move the pieces of each sentence in x, of shape (T, B, C), before the padding."""
        return x if self.front is None else self.permuted_rows(x, self.front)

    def rows_from_front(self, x: Tensor) -> Tensor:
        """Undo `rows_to_front`."""
        return x if self.back is None else self.permuted_rows(x, self.back)

    def permuted(self, square: Tensor, order: Tensor) -> Tensor:
        """Reorder rows and columns, (B, H, K, K); `order`, (B, K), lists the old indices."""

        def index() -> Tensor:
            pairs = order[:, :, None] * square.size(-1) + order[:, None, :]  # B K K
            return pairs.flatten(1)[:, None]

        flat = square.flatten(2).expand(len(order), -1, -1)
        pairs = self.cached(("pairs", order is self.front), index).expand(-1, square.size(1), -1)
        return flat.gather(-1, pairs).view(len(order), *square.shape[1:])

    def permuted_rows(self, x: Tensor, order: Tensor) -> Tensor:
        """Reorder the rows of each sentence, (T, B, C); `order`, (B, T), lists the old indices."""

        def index() -> Tensor:
            return (order.T * x.size(1) + torch.arange(x.size(1), device=x.device)).flatten()

        rows = self.cached(("rows", order is self.front), index)
        return x.flatten(0, 1).index_select(0, rows).view(x.shape)

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result of `make()`, which is cached per key and batch for all layers.

        The key must contain every option on which the result depends. The result must not require a
        gradient, because activation checkpointing runs layers twice.
        """
        if key not in self.cache:
            self.cache[key] = make()
        made: Made = self.cache[key]
        return made
