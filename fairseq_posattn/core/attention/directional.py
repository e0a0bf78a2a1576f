"""Directional masks are those of DiSAN (Shen et al. 2018a; row Bi_Direct of Yang et al. 2019).

Half of the heads see j <= i, the other half j >= i. That a piece sees itself is ours: DiSAN leaves
j = i out, as `strict` does. The first piece, or the last, then sees nothing, and its row is zero.
There are no parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, ScoreMask, Use
from fairseq_posattn.core.option_values import option


@dataclass(frozen=True)
class DirectionalOptions:
    strict: bool = option(False, "with true a piece does not see itself, as published by DiSAN")


class Directional(ScoreMask):
    """The first half of the heads sees what came before, the other half what comes after."""

    name = "directional"
    paper = "Shen et al. 2018a, DiSAN; Yang et al. 2019, Table 1"
    Options = DirectionalOptions
    options: DirectionalOptions
    accepts_heads = True
    examples = ("", "strict=true")
    equation = "keys j ≤ i in the first half of the heads, j ≥ i in the other half"

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
        """Return which keys each head sees, 1 H Q K."""
        before, after = ctx.distances < 0, ctx.distances > 0
        if not self.options.strict:
            before, after = ~after, ~before
        heads = range(self.shape.heads) if self.heads is None else self.heads
        return torch.stack([before if h < self.shape.heads // 2 else after for h in heads])[None]
