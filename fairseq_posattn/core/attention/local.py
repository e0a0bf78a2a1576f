"""Local attention around a predicted centre (Luong et al. 2015, Yang et al. 2018).

I is the length of the sentence, j is the position of the key, and d is the width of a head. In
cross-attention, I and j refer to the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import by_head, by_query, times
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias, ScoreMask, WeightChange
from fairseq_posattn.core.option_values import ANY_SIZE, option
from fairseq_posattn.files.records import at_least


@dataclass(frozen=True)
class LocalHardOptions:
    reach: int = option(
        10, "maximum distance of a key from the centre, in pieces", {**at_least(1), ANY_SIZE: True}
    )


class LocalHard(ScoreMask, WeightChange):
    """Restricts each query to a Gaussian-weighted window around a predicted centre.

    The centre is p_i = I sigmoid(v·tanh(W q_i)), with separate W and v for each head. Keys with |j
    - p_i| <= D (`reach`) are allowed. Attention weights are multiplied by exp(-(j - p_i)^2 / (2
    sigma^2)), where sigma = D/2, so that the centre receives a gradient.
    """

    name = "local_hard"
    paper = "Luong et al. 2015, local-p; Yang et al. 2019, Table 1"
    Options = LocalHardOptions
    options: LocalHardOptions
    accepts_heads = True
    cross_safe = True
    local = True
    keeps_self = False
    examples = ("reach=2",)
    neutral = "reach=1000000000"
    equation = "keys |j − p_i| ≤ D; f_ij = exp(−(j − p_i)² / (2σ²)); p_i = I·sigmoid(v·tanh(W q_i))"

    def make_parameters(self) -> None:
        self.computed: tuple[Tensor | None, Tensor | None] = None, None
        self.hidden = nn.Parameter(
            torch.empty(self.head_count, self.shape.head_width, self.shape.head_width)
        )
        self.centre = nn.Parameter(torch.empty(self.head_count, self.shape.head_width))
        for matrix in (*self.hidden, self.centre):
            nn.init.xavier_uniform_(matrix)

    def offsets(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return j - p_i for each query and key, of shape (B, H, Q, K)."""
        hidden = torch.tanh(times(q, self.hidden.transpose(-1, -2)))  # B H Q D
        centre = part_of_length(times(hidden, self.centre[..., None]), ctx).squeeze(-1)  # B H Q
        if self.watching:
            self.watch(centre_minus_query=from_query(centre, ctx))
        return offsets(centre, ctx)

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        offsets = self.offsets(q, ctx)
        self.computed = q, offsets  # `change_weights` needs them, too
        return offsets.detach().abs() <= self.options.reach

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        known, offsets = self.computed
        self.computed = None, None
        if offsets is None or known is not q:
            offsets = self.offsets(q, ctx)
        deviation = self.options.reach / 2
        return weights * torch.exp(offsets.square() * (-0.5 / deviation**2)).type_as(weights)


class LocalSoft(ScoreBias):
    """Adds a Gaussian bias, whose centre and width are predicted from the query, to the scores.

    The score becomes s_ij - (j - P_i)^2 / (2 sigma_i^2), with sigma_i = D_i/2, P_i = I
    sigmoid(U_p·tanh(W q_i)) and D_i = I sigmoid(U_d·tanh(W q_i)). W is applied to the concatenated
    heads, whereas each head has its own U_p and U_d.
    """

    name = "local_soft"
    paper = "Yang et al. 2018; Yang et al. 2019, Table 1"
    cross_safe = True
    SMALLEST = 0.01  # minimum D_i in pieces (our addition), so that it is never rounded to 0
    equation = "b_ij = −(j − P_i)² / (2σ_i²), P_i and σ_i predicted from the queries"

    def make_parameters(self) -> None:
        self.hidden = nn.Linear(self.shape.width, self.shape.width, bias=False)  # W
        self.centre = nn.Parameter(torch.empty(self.shape.heads, self.shape.head_width))  # U_p
        self.width = nn.Parameter(torch.empty(self.shape.heads, self.shape.head_width))  # U_d
        for matrix in (self.hidden.weight, self.centre, self.width):
            nn.init.xavier_uniform_(matrix)

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        hidden: Tensor = torch.tanh(self.hidden(by_query(q).flatten(2)))  # Q B C
        hidden = by_head(hidden.unflatten(-1, (self.shape.heads, -1)))  # B H Q D
        both = times(hidden, torch.stack([self.centre, self.width], dim=-1))  # B H Q 2
        centre, width = part_of_length(both, ctx).unbind(-1)  # P_i and D_i: B H Q
        width = width.clamp(min=self.SMALLEST)
        if self.watching:
            self.watch(centre_minus_query=from_query(centre, ctx))
            self.watch(width_of_the_window=mean_of_real(width, ctx))
        offset = offsets(centre, ctx)  # B H Q K
        return -2 * (offset / width[..., None]).square()  # 2 sigma^2 = D^2 / 2


def part_of_length(x: Tensor, ctx: AttentionContext) -> Tensor:
    """Return I * sigmoid(x), of shape (B, H, Q, N), in at least float32."""
    return torch.sigmoid(at_least_float32(x)) * ctx.lengths[:, None, None, None]


def from_query(centre: Tensor, ctx: AttentionContext) -> Tensor:
    """Return the mean offset, (H,), of the centres, (B, H, Q), from their queries."""
    return mean_of_real(centre - ctx.query_positions[:, None], ctx)


def mean_of_real(x: Tensor, ctx: AttentionContext) -> Tensor:
    """Return the mean of x, (B, H, Q), over all real queries, of shape (H,)."""
    x = x.detach().transpose(0, 1)  # H B Q
    if ctx.real_queries is None:
        return x.mean((-1, -2))
    real = ctx.real_queries.type_as(x)
    return (x * real).sum((-1, -2)) / real.sum()


def offsets(centre: Tensor, ctx: AttentionContext) -> Tensor:
    """Return the offset of each key from each centre, of shape (B, H, Q, K)."""
    return ctx.positions[:, None, None, :] - centre[..., None]
