"""Convolutions over the attention weights (Dufter et al. 2020, Section 2.5).

1d: A'_ij' = ReLU(b_j' + sum_{u in -1,0,1} sum_j W_u,j,j' a_i+u,j). The convolution slides over the
rows of the weight matrix, and its t columns are the channels. Each head has t filters.

2d: Each head has one 3 x 3 filter and one bias, followed by ReLU.

In both cases, the weights are zero-padded, the result is not renormalised, and rows and columns of
padding are set to 0 before and after the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.direct import check_length, glorot_uniform_, refuse_longer
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
from fairseq_posattn.core.attention.stages import WeightChange
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import at_least, one_of


@dataclass(frozen=True)
class ConvolvedOptions:
    init: str = option(
        "glorot",
        "initialisation of the filters: glorot (uniform, as in the authors' code), glorot_normal, "
        "or identity (initially plain attention)",
        one_of("glorot", "glorot_normal", "identity"),
    )


@dataclass(frozen=True)
class Convolved1dOptions(ConvolvedOptions):
    t: int = option(
        0,
        "maximum input length in pieces; 0: that of the model",
        at_least(0),
    )


class Convolved(WeightChange):
    """Base class of the two convolutions."""

    paper = "Dufter et al. 2020, Section 2.5"
    accepts_heads = True
    neutral = ""
    options: ConvolvedOptions
    weight: nn.Parameter  # the filters
    bias: nn.Parameter

    @classmethod
    def check(cls, options: Any, shape: AttentionShape, others: Sequence[Use]) -> None:
        for other in others:
            if getattr(other.options, "across", 1) > 1:
                raise ValueError(
                    f"with {other.mechanism.name}(across={other.options.across}) a query has "
                    "several weights per key, which this convolution does not support; leave out "
                    "one of the two"
                )

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        if ctx.real is None:
            return torch.relu(self.convolve(weights, ctx))
        weights = weights * ctx.real[:, None, :, None]  # columns of padding are 0 already
        return torch.relu(self.convolve(weights, ctx)) * ctx.real[:, None, :, None]

    def set_neutral(self) -> None:
        """Set the filters to the identity."""
        super().set_neutral()
        self.start_as_plain_attention()

    def initialise(self, fan: int) -> None:
        """Initialise the filters; `fan` is the number of weights per filter."""
        if self.options.init == "glorot":
            glorot_uniform_(self.weight, fan, fan)
        elif self.options.init == "glorot_normal":
            nn.init.normal_(self.weight, std=math.sqrt(2 / (fan + fan)))
        else:
            self.start_as_plain_attention()

    def start_as_plain_attention(self) -> None:
        """Set the filters, which must be zero, to the identity."""
        raise NotImplementedError

    def convolve(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the convolution of the weights, before the ReLU, of shape (B, H, Q, K)."""
        raise NotImplementedError


class Convolved1d(Convolved):
    """Convolves the weights over three neighbouring rows, with the columns as channels."""

    name = "convolved_1d"
    Options = Convolved1dOptions
    options: Convolved1dOptions
    equation = "A′ = ReLU(conv(a)): the rows are the steps, t filters of width 3"

    def make_parameters(self) -> None:
        t = self.options.t or self.shape.max_positions
        self.weight = nn.Parameter(torch.zeros(self.head_count, 3, t, t))  # H u j j'
        self.bias = nn.Parameter(torch.zeros(self.head_count, t))
        self.initialise(fan=3 * t)

    def diagnostics(self) -> Mapping[str, Tensor]:
        rows = at_least_float32(self.weight).flatten(2).norm(dim=-1)  # H u
        names = ("row before", "same row", "row after")
        return {f"length of the filters, {name}": rows[:, k] for k, name in enumerate(names)}

    @torch.no_grad()
    def start_as_plain_attention(self) -> None:
        self.weight[:, 1] = torch.eye(self.weight.size(-1))

    @classmethod
    def check(
        cls, options: Convolved1dOptions, shape: AttentionShape, others: Sequence[Use]
    ) -> None:
        super().check(options, shape, others)
        check_length(options.t, shape, "has no filter for later positions")

    def convolve(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        refuse_longer(ctx, self.weight.size(-1))
        length = min(ctx.length, self.weight.size(-1))
        crop = length - self.weight.size(-1)
        filters = F.pad(self.weight, (0, crop, 0, crop)).flatten(1, 2)  # H 3K K'
        rows = F.pad(ctx.to_front(weights)[..., :length], (0, 0, 1, 1))  # B H Q+2 K
        rows = torch.cat([rows[:, :, u : u + ctx.length] for u in range(3)], dim=-1)  # B H Q 3K
        convolved = rows @ filters + self.bias[:, None, :length]
        if ctx.length > length:  # the additional columns are padding
            convolved = F.pad(convolved, (0, ctx.length - length))
        return ctx.from_front(convolved)


class Convolved2d(Convolved):
    """Convolves the weights of each head with one 3 × 3 filter."""

    name = "convolved_2d"
    Options = ConvolvedOptions
    equation = "A′ = ReLU(conv(a)): one 3 × 3 filter for each head"

    def make_parameters(self) -> None:
        self.weight = nn.Parameter(torch.zeros(self.head_count, 1, 3, 3))
        self.bias = nn.Parameter(torch.zeros(self.head_count))
        self.initialise(fan=9)

    @torch.no_grad()
    def start_as_plain_attention(self) -> None:
        self.weight[..., 1, 1] = 1

    def diagnostics(self) -> Mapping[str, Tensor]:
        middle = self.weight[:, 0, 1, 1]
        around = self.weight[:, 0].sum((-1, -2)) - middle
        return {"middle of the filter": middle, "sum around it": around, "bias": self.bias}

    def convolve(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        return F.conv2d(weights, self.weight, self.bias, padding=1, groups=weights.size(1))
