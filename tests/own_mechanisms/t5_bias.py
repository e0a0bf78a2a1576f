"""The scores get the relative position bias of T5 (Raffel et al. 2020, Section 2.1).

s_ij + b_h[bucket(j - i)], with b learnt. In an encoder half of the 32 buckets serve keys on either
side, in a decoder all serve the past. The first half of them hold one distance each: 0, 1, 2, ...
The others hold ranges that grow logarithmically up to distance 128, and the last one all beyond. T5
has one table for all layers and does not scale its scores; here each layer has one, and they are.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

from fairseq_posattn.attention import ScoreBias, option, register


@dataclass(frozen=True)
class T5BiasOptions:
    """These are the options that `my_t5_bias` takes."""

    buckets: int = option(32, "there are this many buckets, an even number")
    furthest: int = option(128, "from this distance on all keys share a bucket")

    def __post_init__(self):
        if self.buckets < 4 or self.buckets % 2 or self.furthest <= self.buckets // 2:
            raise ValueError("buckets is an even number from 4 on, furthest above half of it")


@register
class T5Bias(ScoreBias):
    """A learnt number for each range of distances, and each head, is added to the scores."""

    name = "my_t5_bias"
    paper = "Raffel et al. 2020, Section 2.1"
    Options = T5BiasOptions
    accepts_heads = True
    causal_safe = True
    examples = ("", "buckets=8, furthest=6")
    neutral = ""

    def __init__(self, options, shape, heads=None):
        super().__init__(options, shape, heads)
        self.table = nn.Parameter(torch.zeros(self.head_count, options.buckets))

    def bias(self, q, ctx):
        """Return the bias, 1 H Q K."""
        return self.table[:, self.bucket(ctx.distances, ctx.causal)][None]

    def bucket(self, distances, causal):
        """Return the bucket of each distance j - i."""
        count = self.options.buckets if causal else self.options.buckets // 2  # for one side
        exact, distance = count // 2, distances.abs()
        far = (distance.clamp(min=1).double() / exact).log()
        grown = exact + (far / math.log(self.options.furthest / exact) * (count - exact)).long()
        bucket = torch.where(distance < exact, distance, grown.clamp(max=count - 1))
        return bucket if causal else bucket + (distances > 0) * count
