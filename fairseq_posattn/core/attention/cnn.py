"""Convolutions before the self-attention (QANet, Yu et al. 2018; "Cnns" in Yang et al. 2019).

By default, x + ReLU(conv(layernorm(x))) is applied twice, with depthwise separable convolutions
whose kernels cover 7 pieces. Padding is set to zero before each convolution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import PreAttention
from fairseq_posattn.core.option_values import option, some_layers
from fairseq_posattn.files.records import limit


@dataclass(frozen=True)
class CnnOptions:
    layers: int = option(2, "number of stacked convolutions", some_layers())
    kernel: int = option(
        7,
        "kernel size in pieces, an odd number",
        limit(
            lambda kernel: 0 < kernel < 1024 and kernel % 2,
            "an odd number below 1024, so that the kernel is centred on its piece",
        ),
    )
    separable: bool = option(True, "use depthwise separable convolutions; false: full convolutions")


class Cnn(PreAttention):
    """Applies convolutions with residual connections to the layer's input, before the attention."""

    name = "cnn"
    paper = "Yu et al. 2018, QANet; Yang et al. 2019, Table 1"
    Options = CnnOptions
    examples = ("kernel=3", "layers=1, separable=false")
    neutral = ""
    equation = "x + ReLU(conv(layernorm(x))), before the attention"

    def make_parameters(self) -> None:
        self.norms = nn.ModuleList(
            nn.LayerNorm(self.shape.width) for _ in range(self.options.layers)
        )
        self.convolutions = nn.ModuleList(
            convolution(self.shape.width, self.options) for _ in range(self.options.layers)
        )

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        for norm, convolve in zip(self.norms, self.convolutions, strict=True):
            normed = norm(x)  # T B C
            if ctx.real is not None:
                normed = normed * ctx.real.T[..., None]
            x = x + torch.relu(convolve(normed.permute(1, 2, 0)).permute(2, 0, 1))
        return x


def convolution(width: int, options: CnnOptions) -> nn.Module:
    """Return a convolution that preserves the shape (B, C, T) of its input."""
    same = options.kernel // 2
    if not options.separable:
        return nn.Conv1d(width, width, options.kernel, padding=same)
    depthwise = nn.Conv1d(width, width, options.kernel, padding=same, groups=width)
    return nn.Sequential(depthwise, nn.Conv1d(width, width, 1))
