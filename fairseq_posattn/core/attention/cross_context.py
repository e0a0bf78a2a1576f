"""Cross-attention has a context of its own, whose queries are pieces of the target.

The length of the target is known in training only, so nothing here depends on it: the diagonal of
target piece i, counted from 0 without padding, is the source piece

    c_i = min(floor(r i + 1/2), I - 1)

where I is the length of the source and r is a fixed ratio. With r = 1 this is the monotonic
alignment p_t = t of Luong et al. 2015 (Section 3.2, local-m); the minimum is ours, so that what
comes after as many pieces as the source has sees its end.
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
from fairseq_posattn.io.records import limit


@dataclass
class CrossContext(AttentionContext):
    """The keys are all pieces of the source, the queries are the last pieces of the target.

    `real`, `tree`, `positions` and `lengths` are those of the source.
    """

    real_target: Tensor = None  # type: ignore[assignment]  # B T, True = real, see `between`

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

        source_padding: bool, B S; target_padding: bool, B T; True marks padding. In incremental
        decoding the target is the prefix decoded so far, and its last `queries` pieces are the
        queries.
        empty: whether some source has no piece; a known value spares waiting for the device.
        brackets: the number of open brackets after each target piece, B T, if known.
        """
        # On a CPU it costs nothing to ask.
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
        """Return the positions of the queries in the target, B Q; 0 before its first piece."""
        positions = (self.real_target.long().cumsum(dim=1) - 1).clamp(min=0)
        return positions[:, positions.size(1) - self.queries :]

    @property
    def real_queries(self) -> Tensor:
        """Return which queries are no padding, B Q."""
        return self.real_target[:, self.real_target.size(1) - self.queries :]

    @property
    def is_square(self) -> bool:
        """Tell that queries and keys are different pieces, even if there are as many of both."""
        return False

    @property
    def distances(self) -> Tensor:
        """Refuse to count columns, which say nothing about a source and a target together."""
        raise TypeError("cross-attention has no ctx.distances; take ctx.from_diagonal()")

    @once
    def steps_before(self) -> Tensor:
        """Return for each query the step that it goes back to, B Q; -1 where there is none.

        It is that of the piece before the innermost bracket that is open, or, where the target
        has no brackets, that of the piece before.
        """
        steps = torch.arange(self.real_target.size(1), device=self.device)
        own = steps[-self.queries :, None]
        before = self.real_target[:, None, :] & (steps < own)
        if self.brackets is not None:
            depth = self.brackets
            before = before & (depth[:, None, :] < depth[:, -self.queries :, None])
        return torch.where(before, steps, -1).max(dim=-1).values

    def diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return the source position on which the diagonal of each query lies, B Q."""
        along = self.query_positions
        if ratio != 1:
            along = (along.double() * ratio + 0.5).floor().long()
        return torch.minimum(along, self.lengths[:, None] - 1)

    def from_diagonal(self, ratio: float = 1.0) -> Tensor:
        """Return how far each key lies from the diagonal of each query, B 1 Q K."""
        return self.cached(
            ("from_diagonal", ratio),
            lambda: self.positions[:, None, None, :] - self.diagonal(ratio)[:, None, :, None],
        )


def ratio_option() -> float:
    """Return the field of a dataclass of options that holds the ratio."""
    return option(
        1.0,
        "source pieces for each target piece, with which the diagonal rises",
        limit(
            lambda ratio: 0 < ratio < float("inf"),
            "a number above 0, such as the length of all sources of the corpus divided by that of "
            "all targets",
        ),
    )


@dataclass(frozen=True)
class DiagonalOptions:
    ratio: float = ratio_option()


def ratio_of(options: Any) -> float:
    """Return the ratio that options have; in self-attention they have none, and it is 1."""
    return float(getattr(options, "ratio", 1.0))
