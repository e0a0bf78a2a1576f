"""Convolutions before the self-attention (QANet, Yu et al. 2018; row Cnns of Yang et al. 2019).

x + ReLU(conv(layernorm(x))), twice, depth-wise separable, kernel 7; padding is zeroed before each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Heads, PreAttention


@dataclass(frozen=True)
class CnnOptions:
    """layers: convolutions; kernel: their width, odd; separable: depth-wise, then a linear map."""

    layers: int = 2
    kernel: int = 7
    separable: bool = True

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"layers={self.layers}: must be at least 1")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel={self.kernel}: must be odd, its piece is in the middle")


class Cnn(PreAttention):
    """Convolutions over neighbouring pieces stand before the attention of the layer."""

    name = "cnn"
    Options = CnnOptions

    def __init__(self, options: CnnOptions, shape: AttentionShape, heads: Heads = None):
        super().__init__(options, shape, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(options.layers))
        self.convolutions = nn.ModuleList(
            convolution(shape.width, options) for _ in range(options.layers)
        )

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        for norm, convolve in zip(self.norms, self.convolutions, strict=True):
            normed = norm(x)  # T B C
            if ctx.real is not None:
                normed = normed * ctx.real.T[..., None]
            x = x + torch.relu(convolve(normed.permute(1, 2, 0)).permute(2, 0, 1))
        return x


def convolution(width: int, options: CnnOptions) -> nn.Module:
    """B C T -> B C T."""
    same = options.kernel // 2
    if not options.separable:
        return nn.Conv1d(width, width, options.kernel, padding=same)
    depthwise = nn.Conv1d(width, width, options.kernel, padding=same, groups=width)
    return nn.Sequential(depthwise, nn.Conv1d(width, width, 1))
