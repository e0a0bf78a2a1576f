"""Directional masks (DiSAN, Shen et al. 2018a; row Bi_Direct of Yang et al. 2019).

Half of the heads see j <= i, the other half j >= i. The diagonal is ours: DiSAN leaves it out, as
`strict` does; then the first piece, or the last, sees nothing and its row is zero. No parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, ScoreMask, Use


@dataclass(frozen=True)
class DirectionalOptions:
    """strict: without the piece itself, as published by DiSAN."""

    strict: bool = False


class Directional(ScoreMask):
    """The first half of the heads sees what came before, the other half what comes after."""

    name = "directional"
    Options = DirectionalOptions
    options: DirectionalOptions
    accepts_heads = True

    @classmethod
    def check(
        cls, options: DirectionalOptions, shape: AttentionShape, others: Sequence[Use]
    ) -> None:
        if shape.heads < 2:
            raise ValueError("one attention head cannot look both ways: take at least 2")

    @property
    def keeps_self(self) -> bool:  # type: ignore[override]  # read-only: nobody assigns it
        return not self.options.strict

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        return ctx.cached((Directional, self.options, self.heads), lambda: self.mask(ctx))

    def mask(self, ctx: AttentionContext) -> Tensor:
        """1 H Q K."""
        before, after = ctx.distances < 0, ctx.distances > 0
        if not self.options.strict:
            before, after = ~after, ~before
        heads = range(self.shape.heads) if self.heads is None else self.heads
        return torch.stack([before if h < self.shape.heads // 2 else after for h in heads])[None]
