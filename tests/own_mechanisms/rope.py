"""Rotary position embedding turns q and k (RoPE; Su et al. 2021, "RoFormer", Eq. 15 and 34).

q_i -> R_i q_i and k_j -> R_j k_j, where R_i turns the pair of features (2m, 2m + 1) by the angle
i theta^(-2m/d), m = 0 ... d/2 - 1. Values are not turned. Pairs are neighbours, as published; many
programs pair feature m with m + d/2.
"""

from dataclasses import dataclass

import torch

from fairseq_posattn.attention import QKVTransform, at_least_float32, option, register


@dataclass(frozen=True)
class RopeOptions:
    """These are the options that `my_rope` takes."""

    theta: int = option(10000, "angles fall with powers of this base")


@register
class Rope(QKVTransform):
    """Queries and keys are turned by angles that grow with their position."""

    name = "my_rope"
    paper = "Su et al. 2021, Eq. 34"
    Options = RopeOptions
    accepts_heads = True
    causal_safe = True
    examples = ("", "theta=10")

    @classmethod
    def check(cls, options, shape, others):
        """Refuse heads whose features cannot be paired."""
        if shape.head_width % 2:
            raise ValueError(f"a head has {shape.head_width} features; pairs need an even number")

    def transform(self, q, k, v, ctx):
        """Return turned queries and keys, and the values as they are."""
        positions = ctx.positions[:, None, :, None]  # B 1 K 1
        return self.turn(q, positions[:, :, -ctx.queries :]), self.turn(k, positions), v

    def turn(self, x, positions):
        """Return x, B H T D, with each pair of features turned by its angle."""
        x32, width = at_least_float32(x), x.size(-1)
        steps = torch.arange(0, width, 2, device=x.device, dtype=x32.dtype)  # 2m
        angles = positions * self.options.theta ** (-steps / width)  # B 1 T D/2
        cos, sin, (even, odd) = angles.cos(), angles.sin(), x32.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return turned.flatten(-2).type_as(x)
