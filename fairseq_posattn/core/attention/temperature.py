"""A learnable temperature for queries, keys and values (Dufter et al. 2020, Section 2.4).

W_q, W_k and W_v are each multiplied by a learnt scalar per head, which is initially 1. If the
projections have a bias, it is scaled as well: gamma (W x + b).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import QKVTransform


class Temperature(QKVTransform):
    """Multiplies queries, keys and values of each head by learnt scalars."""

    name = "temperature"
    paper = "Dufter et al. 2020, Section 2.4"
    accepts_heads = True
    causal_safe = True
    cross_safe = True
    neutral = ""
    equation = "γ_q W_q x, γ_k W_k x and γ_v W_v x, three numbers γ for each head"

    def make_parameters(self) -> None:
        self.gamma = nn.Parameter(torch.ones(3, self.head_count))  # for queries, keys, values

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Set all factors to 1."""
        self.gamma.fill_(1.0)

    def diagnostics(self) -> Mapping[str, Tensor]:
        names = ("γ of queries", "γ of keys", "γ of values")
        return dict(zip(names, self.gamma, strict=True))

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        gamma = self.gamma[..., None, None].type_as(q)  # 3 H 1 1
        return q * gamma[0], k * gamma[1], v * gamma[2]

    def transform_queries(self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext) -> Tensor:
        return q * self.gamma[0, :, None, None].type_as(q)
