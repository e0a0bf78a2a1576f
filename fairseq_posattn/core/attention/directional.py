"""The directional masks of DiSAN (Shen et al. 2018a; "Bi_Direct" in Yang et al. 2019).

In the first half of the heads, query i attends to keys j <= i; in the other half, it attends to
keys j >= i. DiSAN excludes j = i; use `strict=true` to reproduce this. In this case, the first or
the last piece has no allowed key, and its row of weights is zero. The mechanism has no parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use
from fairseq_posattn.core.attention.stages import ScoreMask
from fairseq_posattn.core.option_values import option


@dataclass(frozen=True)
class DirectionalOptions:
    strict: bool = option(False, "true: a piece does not attend to itself, as in DiSAN")


class Directional(ScoreMask):
    """Restricts half of the heads to earlier pieces, and the other half to later ones."""

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
            raise ValueError("it needs a head for each direction; use at least 2 heads")

    @property
    def keeps_self(self) -> bool:  # type: ignore[override]  # read-only: nobody assigns it
        return not self.options.strict

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        return ctx.cached((Directional, self.options, self.heads), lambda: self.mask(ctx))

    def mask(self, ctx: AttentionContext) -> Tensor:
        """Return a mask of the keys that each head may attend to, of shape (1, H, Q, K)."""
        before, after = ctx.distances < 0, ctx.distances > 0
        if not self.options.strict:
            before, after = ~after, ~before
        heads = range(self.shape.heads) if self.heads is None else self.heads
        return torch.stack([before if h < self.shape.heads // 2 else after for h in heads])[None]
