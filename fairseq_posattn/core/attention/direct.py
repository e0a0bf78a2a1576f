"""Direct position interactions (Dufter et al. 2020, "Increasing Learning Efficiency of Self-
Attention Networks", Section 2.3): learnt scores of positions, for each head, in the first layer.

absolute (P): s_ij + P_ij, P of t x t.    relative (R): s_ij + R[i - j + t], R of 2t numbers.

t is the maximal length; in translation the longest input that the model takes. The authors' program
starts from Keras' Glorot normal distribution (`glorot`); the zeros (plain attention) are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.glorot import glorot_normal_
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    Heads,
    ScoreBias,
    Use,
    at_least_float32,
)
from fairseq_posattn.errors import InputError


@dataclass(frozen=True)
class DirectOptions:
    """t: maximal length, 0 = the longest input; init: zeros or glorot."""

    t: int = 0
    init: str = "zeros"

    def __post_init__(self) -> None:
        if self.t < 0:
            raise ValueError(f"t={self.t}: the maximal length cannot be negative")
        if self.init not in ("zeros", "glorot"):
            raise ValueError(f"init={self.init}: expected zeros or glorot")


@dataclass(frozen=True)
class DirectRelativeOptions(DirectOptions):
    """symmetric: R taken as the spectrum of a circulant matrix, as in the authors' program, so
    that left and right cannot be told apart."""

    symmetric: bool = False


class Direct(ScoreBias):
    """A learnt table of scores."""

    accepts_heads = True
    causal_safe = True
    usual_layers = (0,)
    options: DirectOptions

    def __init__(self, options: DirectOptions, shape: AttentionShape, heads: Heads = None):
        super().__init__(options, shape, heads)
        self.t = options.t or shape.max_positions
        self.scores = nn.Parameter(torch.zeros(self.head_count, *self.size()))
        if options.init == "glorot":
            glorot_normal_(self.scores, self.fan(), self.fan())

    def size(self) -> tuple[int, ...]:
        """The sizes of one head's table."""
        raise NotImplementedError

    def fan(self) -> float:
        """What Keras takes for the number of inputs, and of outputs, of one head's table."""
        raise NotImplementedError


class DirectAbsolute(Direct):
    """A learnt score for each pair of positions (P)."""

    name = "direct_absolute"
    Options = DirectOptions

    @classmethod
    def check(cls, options: DirectOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        check_length(options.t, shape, "has no score for later positions")

    def size(self) -> tuple[int, ...]:
        return self.t, self.t

    def fan(self) -> float:
        return self.t

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """1 H Q K, or B H Q K where padding stands before some sentence."""
        refuse_longer(ctx, self.t)
        scores = self.scores[None, :, : ctx.length, : ctx.length]
        scores = ctx.from_front(F.pad(scores, 2 * (0, ctx.length - scores.size(-1))))
        return scores[:, :, ctx.length - ctx.queries :]


class DirectRelative(Direct):
    """A learnt score for each distance (R); longer distances take that of the longest."""

    name = "direct_relative"
    Options = DirectRelativeOptions
    options: DirectRelativeOptions

    def size(self) -> tuple[int, ...]:
        return (2 * self.t,)

    def fan(self) -> float:
        """Keras takes the square root of a vector's length for each fan."""
        return math.sqrt(2 * self.t)

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """1 H Q K."""
        return self.by_distance()[:, self.rows(ctx)][None]

    def rows(self, ctx: AttentionContext) -> Tensor:
        """Q K: i - j + t, clipped into the table; symmetric: -|i - j| + t."""
        distances = ctx.distances.abs() if self.options.symmetric else ctx.distances
        return (self.t - distances).clamp(0, 2 * self.t - 1)

    def by_distance(self) -> Tensor:
        """H 2t: the score of the distance n - t at n."""
        if not self.options.symmetric:
            return self.scores
        # circulant matrix of a real spectrum: c[n] = 1/2t sum_m R[m] cos(2 pi m n / 2t)
        circulant: Tensor = torch.fft.ifft(at_least_float32(self.scores)).real  # H 2t
        return circulant.type_as(self.scores).roll(self.t, dims=-1)  # c[|n - t|]: c is even


def check_length(t: int, shape: AttentionShape, what_is_missing: str) -> None:
    if t and t < shape.max_positions:
        raise InputError(
            f"t={t} {what_is_missing} but inputs may have {shape.max_positions} pieces: give "
            f"t={shape.max_positions}, or --max-source-positions {t} (in a decoder: target)"
        )


def refuse_longer(ctx: AttentionContext, t: int) -> None:
    if ctx.length > t and int(ctx.lengths.max()) > t:
        raise InputError(f"a sentence of {int(ctx.lengths.max())} pieces is longer than t={t}")
