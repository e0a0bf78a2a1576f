"""Learnable temperature (Dufter et al. 2020, Section 2.4).

W_q, W_k and W_v are each multiplied by a learnt number for each head, 1 at the start; where there
is a bias: gamma (W x + b).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Heads, NoOptions, QKVTransform


class Temperature(QKVTransform):
    """Queries, keys and values of each head times a learnt number."""

    name = "temperature"
    accepts_heads = True
    causal_safe = True

    def __init__(self, options: NoOptions, shape: AttentionShape, heads: Heads = None):
        super().__init__(options, shape, heads)
        self.gamma = nn.Parameter(torch.ones(3, self.head_count))  # of queries, keys, values

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        gamma = self.gamma[..., None, None].type_as(q)  # 3 H 1 1
        return q * gamma[0], k * gamma[1], v * gamma[2]
