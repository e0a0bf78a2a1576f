"""Gaussian bias towards near keys (Sperber et al. 2018; row Neighbor of Yang et al. 2019).

s_ij - (i - j)^2 / (2 sigma_h^2), sigma_h learnt for each head, sigma^2 = 100 at the start.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.context import AttentionContext
from fairseq_posattn.attention.mechanism import ScoreBias, precise


class Gaussian(ScoreBias):
    """The further a key, the lower its score; how much is learnt for each head."""

    name = "gaussian"
    accepts_heads = True
    causal_safe = True

    def __init__(self, options, shape, heads=None):
        super().__init__(options, shape, heads)
        self.log_sigma = nn.Parameter(torch.full((self.acting,), math.log(10)))  # keeps it positive

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        rate = 0.5 * torch.exp(-2 * precise(self.log_sigma))  # 1 / (2 sigma^2)
        return (-rate[:, None, None] * ctx.distances.square())[None]  # 1 H Q K
