"""Direct position interactions: learnt score biases for each head (Dufter et al. 2020).

The paper is "Increasing Learning Efficiency of Self-Attention Networks" (Section 2.3). By default,
the mechanisms act in the first layer only.

    absolute (P): s_ij + P_ij, where P is a t x t matrix
    relative (R): s_ij + R[i - j + t], where R contains 2t numbers

t is the maximum input length of the model. The authors' code initialises P and R with Keras' Glorot
normal distribution (`glorot`; Glorot and Bengio 2010). Initialisation with zeros, which is
equivalent to plain attention, is our addition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias
from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import at_least, one_of


@dataclass(frozen=True)
class DirectOptions:
    t: int = option(
        0,
        "maximum input length in pieces; 0: that of the model",
        at_least(0),
    )
    init: str = option(
        "zeros",
        "initialisation: zeros (initially plain attention), or glorot, as published",
        one_of("zeros", "glorot"),
    )


@dataclass(frozen=True)
class DirectRelativeOptions(DirectOptions):
    symmetric: bool = option(
        False,
        "true: R is the spectrum of a circulant matrix, as in the authors' code, which makes the "
        "biases symmetric around the query",
    )


class Direct(ScoreBias):
    """Base class of the mechanisms with a table of learnt biases."""

    paper = "Dufter et al. 2020, Section 2.3"
    accepts_heads = True
    causal_safe = True
    usual_layers = (0,)
    neutral = ""
    options: DirectOptions

    def make_parameters(self) -> None:
        self.t = self.options.t or self.shape.max_positions
        self.scores = nn.Parameter(torch.zeros(self.head_count, *self.size()))
        if self.options.init == "glorot":
            glorot_normal_(self.scores, self.fan(), self.fan())

    def diagnostics(self) -> Mapping[str, Tensor]:
        scores = at_least_float32(self.scores).flatten(1)
        return {"deviation of the scores": scores.std(-1, unbiased=False)}

    def size(self) -> tuple[int, ...]:
        """Return the shape of the table of one head."""
        raise NotImplementedError

    def fan(self) -> float:
        """Return the fan-in, equal to the fan-out, that Keras computes for one head's table."""
        raise NotImplementedError


class DirectAbsolute(Direct):
    """Adds a learnt bias for each pair of positions to the scores."""

    name = "direct_absolute"
    Options = DirectOptions
    equation = "b_ij = P_ij"

    @classmethod
    def check(cls, options: DirectOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        check_length(options.t, shape, "has no score for later positions")

    def size(self) -> tuple[int, ...]:
        return self.t, self.t

    def fan(self) -> float:
        return self.t

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (1, H, Q, K), or (B, H, Q, K) with left padding."""
        refuse_longer(ctx, self.t)
        scores = self.scores[None, :, : ctx.length, : ctx.length]
        if ctx.length > self.t:  # the additional columns are padding
            scores = F.pad(scores, 2 * (0, ctx.length - self.t))
        scores = ctx.from_front(scores)
        return scores[:, :, ctx.length - ctx.queries :]


class DirectRelative(Direct):
    """Adds a learnt bias for each distance, clipped to t, to the scores."""

    name = "direct_relative"
    banded = True
    by_distance = True
    Options = DirectRelativeOptions
    examples = ("", "t=3", "symmetric=true")
    options: DirectRelativeOptions
    equation = "b_ij = R[i − j + t]"

    def size(self) -> tuple[int, ...]:
        return (2 * self.t,)

    def fan(self) -> float:
        return math.sqrt(2 * self.t)

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (1, H, Q, K)."""
        return self.of_distances()[:, self.rows(ctx)][None]

    def rows(self, ctx: AttentionContext) -> Tensor:
        """Return the index i - j + t, or -|i - j| + t if symmetric, clipped, of shape (Q, K)."""
        distances = ctx.distances.abs() if self.options.symmetric else ctx.distances
        return (self.t - distances).clamp(0, 2 * self.t - 1)

    def of_distances(self) -> Tensor:
        """Return the biases, of shape (H, 2t); the one for i - j = n - t is at index n."""
        if not self.options.symmetric:
            return self.scores
        # circulant matrix of a real spectrum: c[n] = 1/2t sum_m R[m] cos(2 pi m n / 2t)
        circulant: Tensor = torch.fft.ifft(at_least_float32(self.scores)).real  # H 2t
        return circulant.type_as(self.scores).roll(self.t, dims=-1)  # c[|n - t|]: c is even


LONGEST = 4096  # upper limit of t, unless the model's maximum input length is greater


def check_length(t: int, shape: AttentionShape, what_is_missing: str) -> None:
    """Raise an InputError if t is not allowed for the maximum input length of the model.

    t must be at least this length, and at most this length or 4,096 (`LONGEST`), whichever is
    greater. t = 0 selects the maximum input length.
    """
    longest = max(shape.max_positions, LONGEST)
    if t > longest:
        raise InputError(
            f"t={t} is too large, since the model's inputs have at most {shape.max_positions} "
            f"pieces and the number of parameters grows with t²; use a t up to {longest:,}"
        )
    if t and t < shape.max_positions:
        raise InputError(
            f"t={t} {what_is_missing}, but inputs may have {shape.max_positions} pieces; use "
            f"t={shape.max_positions}, or limit the inputs with --max-source-positions {t} "
            f"(in a decoder --max-target-positions {t})"
        )


def refuse_longer(ctx: AttentionContext, t: int) -> None:
    """Raise an InputError if a sentence has more than t pieces, not counting padding."""
    if ctx.length > t and int(ctx.lengths.max()) > t:
        raise InputError(
            f"a sentence has {int(ctx.lengths.max())} pieces, more than t={t}; use a shorter "
            "sentence, or train with a larger t"
        )


# Standard deviation of a standard normal distribution truncated at ±2.
KEPT_OF_DEVIATION = 0.87962566103423978


def glorot_normal_(tensor: Tensor, fan_in: float, fan_out: float) -> None:
    """Fill a tensor with values from a truncated normal distribution, as in Keras.

    The distribution is truncated at two standard deviations. After truncation, its standard
    deviation is sqrt(2 / (fan_in + fan_out)).
    """
    uncut = math.sqrt(2 / (fan_in + fan_out)) / KEPT_OF_DEVIATION
    nn.init.trunc_normal_(tensor, std=uncut, a=-2 * uncut, b=2 * uncut)


def glorot_uniform_(tensor: Tensor, fan_in: float, fan_out: float) -> None:
    """Draw from a uniform distribution of standard deviation sqrt(2 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(tensor, -bound, bound)
