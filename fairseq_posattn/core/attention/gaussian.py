"""Gaussian bias towards near keys (Sperber et al. 2018; row Neighbor of Yang et al. 2019).

s_ij - (i - j)^2 / (2 sigma_h^2), sigma_h learnt for each head, sigma^2 = 100 at the start.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    Heads,
    NoOptions,
    ScoreBias,
    at_least_float32,
)


class Gaussian(ScoreBias):
    """The further a key, the lower its score; how much is learnt for each head."""

    name = "gaussian"
    accepts_heads = True
    causal_safe = True

    def __init__(self, options: NoOptions, shape: AttentionShape, heads: Heads = None):
        super().__init__(options, shape, heads)
        # The logarithm keeps sigma positive.
        self.log_sigma = nn.Parameter(torch.full((self.head_count,), math.log(10)))

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        rate = 0.5 * torch.exp(-2 * at_least_float32(self.log_sigma))  # 1 / (2 sigma^2)
        return (-rate[:, None, None] * ctx.distances.square())[None]  # 1 H Q K
