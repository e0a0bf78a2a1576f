"""Rotary position embedding of queries and keys (RoPE; Su et al. 2021, Eq. 15 and 34).

Queries q_i become R_i q_i, and keys k_j become R_j k_j. R_i rotates the m-th pair of dimensions of
a head by the angle i base^(-2m/d), m = 0 ... d/2 - 1. Therefore, scores depend on positions only
through the distance between query and key. Values are not rotated. When using this mechanism,
disable absolute positions by setting them to `none`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
from fairseq_posattn.core.attention.stages import QKVTransform
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import limit, one_of


@dataclass(frozen=True)
class RopeOptions:
    base: float = option(
        10000.0,
        "base of the rotation frequencies, base^(-2m/d) for pair m",
        limit(lambda base: base > 0, "a number above 0"),
    )
    layout: str = option(
        "pairs",
        "pairs: rotate dimensions 2m and 2m + 1 together, as published; halves: dimensions m and "
        "m + d/2, as in many implementations",
        one_of("pairs", "halves"),
    )


class Rope(QKVTransform):
    """Rotates queries and keys by angles proportional to their position."""

    name = "rope"
    paper = "Su et al. 2021, Eq. 15 and 34"
    Options = RopeOptions
    options: RopeOptions
    accepts_heads = True
    causal_safe = True
    examples = ("", "base=10", "layout=halves")
    equation = "R_i q_i and R_j k_j; R_i turns pair m by i·base^(−2m/d)"

    @classmethod
    def check(cls, options: RopeOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if shape.head_width % 2:
            raise ValueError(
                f"it needs an even head width, but the head width is {shape.head_width}; "
                "change the number of heads or the width of the model"
            )

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = at_least_float32(q).dtype
        key = (Rope, self.options, q.size(-1), dtype)
        cos, sin = ctx.cached(key, lambda: self.angles(ctx, q.size(-1), dtype))
        of_queries = slice(ctx.length - ctx.queries, None)
        turned = self.turned(q, cos[:, :, of_queries], sin[:, :, of_queries])
        return turned, self.turned(k, cos, sin), v

    def angles(
        self, ctx: AttentionContext, width: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of all angles, (B, 1, K, D/2), or (1, 1, K, D/2)."""
        pair = torch.arange(0, width, 2, device=ctx.device, dtype=torch.float64)  # 2m
        angles = ctx.positions[..., None] * self.options.base ** (-pair / width)
        return angles.cos().to(dtype)[:, None], angles.sin().to(dtype)[:, None]

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate the pairs of dimensions of x, of shape (B, H, K, D)."""
        wide = at_least_float32(x)
        if self.options.layout == "halves":
            one, two = wide.chunk(2, dim=-1)
            return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1).type_as(x)
        one, two = wide[..., 0::2], wide[..., 1::2]
        pairs = torch.stack([one * cos - two * sin, one * sin + two * cos], dim=-1)
        return pairs.flatten(-2).type_as(x)
