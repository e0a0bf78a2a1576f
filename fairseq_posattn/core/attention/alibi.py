"""ALiBi: a linear penalty on distance, with a fixed slope per head (Press et al. 2022).

The score becomes s_ij - m_h |i - j|, where head h = 1 ... H has the slope m_h = 2^(-8h/H). If H is
not a power of two, the first heads get the slopes for the next lower power of two. The other heads
get every other slope for the next higher power of two, as in the authors' code. When using this
mechanism, disable absolute positions by setting them to `none`.

The paper covers only decoders, in which no key follows its query. For encoders, the authors suggest
three variants in issue 5 of their repository. The option `sides` selects one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias, ScoreMask
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import one_of


@dataclass(frozen=True)
class AlibiOptions:
    sides: str = option(
        "symmetric",
        "symmetric: one slope for both sides of the query; one_sided: in an encoder, the first "
        "half of the heads attends to keys up to the query, the second half to keys from the query "
        "on, each half with the slopes of H/2 heads; learnt: each head learns a slope per side",
        one_of("symmetric", "one_sided", "learnt"),
    )
    offset: float = option(
        0.0, "add this to the distance of keys after the query, to distinguish left from right"
    )


class Alibi(ScoreBias, ScoreMask):
    """Subtracts from each score the distance of the key, multiplied by the slope of the head."""

    name = "alibi"
    paper = "Press et al. 2022, Section 3"
    Options = AlibiOptions
    options: AlibiOptions
    accepts_heads = True
    causal_safe = True
    banded = True
    by_distance = True
    examples = ("", "sides=one_sided", "sides=learnt, offset=0.5")
    neutral = "sides=learnt"
    equation = "b_ij = −m_h |i − j|, m_h = 2^(−8h/H)"

    def make_parameters(self) -> None:
        if self.options.sides == "learnt":  # the sigmoids of these are the slopes
            self.slopes = nn.Parameter(torch.empty(2, self.head_count))
            nn.init.normal_(self.slopes, -2, 1)

    @classmethod
    def check(cls, options: AlibiOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if options.sides == "one_sided" and shape.heads < 2:
            raise ValueError("sides=one_sided needs a head for each side; use at least 2 heads")

    @classmethod
    def forbids(cls, options: AlibiOptions) -> bool:
        return options.sides == "one_sided"

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Set the learnt slopes to zero."""
        for parameter in self.parameters():
            parameter.fill_(-torch.inf)

    def diagnostics(self) -> Mapping[str, Tensor]:
        if self.options.sides != "learnt":
            return {}
        before, after = torch.sigmoid(at_least_float32(self.slopes))
        return {"slope to the left": before, "slope to the right": after}

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (1, H, Q, K)."""
        wide = at_least_float32(q)
        if self.options.sides == "learnt":
            return self.by_side(torch.sigmoid(at_least_float32(self.slopes)), ctx)
        key = (Alibi, "bias", self.options, self.heads, wide.dtype)
        return ctx.cached(key, lambda: self.by_side(self.fixed(ctx).to(wide), ctx))

    def by_side(self, slopes: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (1, H, Q, K).

        `slopes` contains the slopes of each head for keys before and after the query.
        """
        before, after = slopes[..., None, None]  # each H 1 1
        distances = ctx.distances
        further = distances + self.options.offset
        return torch.where(distances > 0, -after * further, before * distances)[None]

    def fixed(self, ctx: AttentionContext) -> Tensor:
        """Return the published slopes for keys before and after the query, (2, H), in float64."""
        count = self.shape.heads
        of_all = slopes_of(count)
        if self.options.sides == "one_sided" and not ctx.causal:
            first = count // 2
            of_all = slopes_of(first) + slopes_of(count - first)
        chosen = of_all if self.heads is None else [of_all[head] for head in self.heads]
        return torch.tensor([chosen, chosen], dtype=torch.float64)

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return a mask of shape (1, H, Q, K); only one-sided heads of an encoder mask keys."""
        return ctx.cached((Alibi, "mask", self.options, self.heads), lambda: self.mask(ctx))

    def mask(self, ctx: AttentionContext) -> Tensor:
        """Return the mask for one-sided heads, or a single True if all keys are allowed."""
        if ctx.causal or self.options.sides != "one_sided":
            return torch.ones((1, 1, 1, 1), dtype=torch.bool, device=ctx.device)
        past, future = ctx.distances <= 0, ctx.distances >= 0
        heads = range(self.shape.heads) if self.heads is None else self.heads
        return torch.stack([past if h < self.shape.heads // 2 else future for h in heads])[None]


def slopes_of(heads: int) -> list[float]:
    """Return the published slopes for a model with this number of heads."""
    power = 1 << (heads.bit_length() - 1)  # the largest power of two <= heads
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first + (slopes_of(2 * power)[::2][: heads - power] if heads > power else [])
