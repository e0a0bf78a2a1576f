"""The context of cross-attention, in which the queries are pieces of the target.

The context does not depend on the length of the target, which is known only during training. The
diagonal of target piece i, counted from 0 without padding, is the source piece

    c_i = min(floor(r i + 1/2), I - 1)

where I is the length of the source and r is a fixed ratio. With r = 1, this is the monotonic
alignment p_t = t of Luong et al. 2015 (Section 3.2, local-m). The minimum is our addition: target
pieces beyond the length of the source attend to the end of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.once import once
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.files.records import limit


@dataclass
class CrossContext(AttentionContext):
    """The context of cross-attention.

        ctx = CrossContext.between(source_padding, target_padding)

    The keys are the source pieces, and the queries are the last target pieces. `real`, `tree`,
    `positions` and `lengths` refer to the source.
    """

    real_target: Tensor = None  # type: ignore[assignment]  # B T, True = not padding

    @classmethod
    def between(
        cls,
        source_padding: Tensor,
        target_padding: Tensor,
        queries: int | None = None,
        tree: SourceTree | None = None,
        empty: bool | None = None,
        brackets: Tensor | None = None,
    ) -> CrossContext:
        """Return the context of a batch of sentence pairs.

        In incremental decoding, the target is the prefix that has been decoded so far, and its last
        `queries` pieces are the queries.

        source_padding, target_padding: boolean masks of shape (B, S) and (B, T), where True marks
            padding.
        empty: whether any source consists only of padding. Pass this value if it is known, to avoid
            synchronising with the device.
        brackets: number of open brackets after each target piece, of shape (B, T).
        """
        # On a CPU, reading the tensor needs no synchronisation.
        padded = source_padding.device.type != "cpu" or bool(source_padding.any())
        real = ~source_padding if padded else None
        length, device = source_padding.size(1), source_padding.device
        queries = target_padding.size(1) if queries is None else queries
        ctx = cls(
            length, device, real, tree, queries, brackets=brackets, real_target=~target_padding
        )
        if empty is not None:
            ctx.nothing_allowed = empty
        return ctx

    @once
    def query_positions(self) -> Tensor:
        """Return the positions of the queries, of shape (B, Q); 0 for padding on the left."""
        positions = (self.real_target.long().cumsum(dim=1) - 1).clamp(min=0)
        return positions[:, positions.size(1) - self.queries :]

    @property
    def real_queries(self) -> Tensor:
        """Return a mask of the queries that are not padding, of shape (B, Q)."""
        return self.real_target[:, self.real_target.size(1) - self.queries :]

    @property
    def is_square(self) -> bool:
        """Return False, because queries and keys are different pieces."""
        return False

    @property
    def distances(self) -> Tensor:
        """Raise a TypeError, because distances between source and target are not defined."""
        raise TypeError("cross-attention has no ctx.distances; use ctx.from_diagonal()")

    @once
    def steps_before(self) -> Tensor:
        """Return the step before the innermost open bracket of each query, of shape (B, Q).

        The step is -1 if there is no such bracket. In targets without brackets, it is the previous
        step.
        """
        steps = torch.arange(self.real_target.size(1), device=self.device)
        own = steps[-self.queries :, None]
        before = self.real_target[:, None, :] & (steps < own)
        if self.brackets is not None:
            depth = self.brackets
            before = before & (depth[:, None, :] < depth[:, -self.queries :, None])
        return torch.where(before, steps, -1).max(dim=-1).values

    def diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return the source position c_i of each query's diagonal, of shape (B, Q)."""
        along = self.query_positions
        if ratio != 1:
            along = (along.double() * ratio + 0.5).floor().long()
        return torch.minimum(along, self.lengths[:, None] - 1)

    def from_diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return the offset of each key from each query's diagonal, of shape (B, 1, Q, K)."""
        return self.cached(
            ("from_diagonal", ratio),
            lambda: self.positions[:, None, None, :] - self.diagonal(ratio)[:, None, :, None],
        )


def ratio_option() -> float:
    """Return the dataclass field of the option `ratio`."""
    return option(
        1.0,
        "slope of the diagonal, in source pieces per target piece",
        limit(
            lambda ratio: 0 < ratio < float("inf"),
            "a number above 0, for example the total length of all sources of the corpus divided "
            "by that of all targets",
        ),
    )


@dataclass(frozen=True)
class DiagonalOptions:
    ratio: float = ratio_option()


def ratio_of(options: Any) -> float:
    """Return the option `ratio`, or 1 in self-attention, where this option does not exist."""
    return float(getattr(options, "ratio", 1.0))
