"""Attention gets linear biases (ALiBi; Press et al. 2022, "Train Short, Test Long", Section 3).

s_ij - m_h |i - j|, where head h = 1 ... H has the slope m_h = 2^(-8h/H). For a number of heads that
is no power of two, the slopes of the next smaller power come first, then every other slope of the
next greater one, as in the authors' program. With j <= i, in a decoder, this is what is published.
"""

import math

import torch

from fairseq_posattn.attention import ScoreBias, at_least_float32, register


@register
class Alibi(ScoreBias):
    """The further a key, the lower its score, at a fixed rate for each head."""

    name = "my_alibi"
    paper = "Press et al. 2022, Section 3"
    accepts_heads = True
    causal_safe = True

    def bias(self, q, ctx):
        """Return the bias, 1 H Q K."""
        of_all = slopes(self.shape.heads)
        heads = range(self.shape.heads) if self.heads is None else self.heads
        rates = [of_all[head] for head in heads]
        rate = torch.tensor(rates, dtype=at_least_float32(q).dtype, device=q.device)
        return -rate[None, :, None, None] * ctx.distances.abs()


def slopes(heads):
    """Return the slope of each head."""
    power = 2 ** int(math.log2(heads))
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first + (slopes(2 * power)[::2][: heads - power] if heads > power else [])
