"""A Gaussian bias that lowers the scores of distant keys (Sperber et al. 2018).

Yang et al. 2019 list this mechanism as "Neighbor". The score becomes s_ij - (i - j)^2 / (2
sigma_h^2). Each head learns its own sigma_h; initially, sigma^2 = 100. In cross-attention, i is
replaced with c_i, the position on the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.cross_context import DiagonalOptions, ratio_of
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias


class Gaussian(ScoreBias):
    """Lowers scores by the squared distance of the key; each head learns a width."""

    name = "gaussian"
    paper = "Sperber et al. 2018; Yang et al. 2019, Table 1"
    accepts_heads = True
    causal_safe = True
    banded = True
    by_distance = True
    cross_safe = True
    CrossOptions = DiagonalOptions
    neutral = ""
    equation = "b_ij = −(i − j)² / (2σ_h²)"

    def make_parameters(self) -> None:
        # The logarithm keeps sigma positive.
        self.log_sigma = nn.Parameter(torch.full((self.head_count,), math.log(10)))

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Make the Gaussian so wide that it is constant over any sentence."""
        self.log_sigma.fill_(30.0)

    def diagnostics(self) -> Mapping[str, Tensor]:
        return {"σ": at_least_float32(self.log_sigma).exp()}

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        rate = 0.5 * torch.exp(-2 * at_least_float32(self.log_sigma))  # 1 / (2 sigma^2)
        offsets = ctx.from_diagonal(ratio_of(self.options))
        return -rate[:, None, None] * offsets.square()  # 1 H Q K, or B H Q K
