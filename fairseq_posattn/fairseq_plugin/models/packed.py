"""Prepack the weights of linear layers for oneDNN, for translation on a CPU.

In a decoding step, each weight matrix is multiplied by only a few rows. torch repacks the weights
in each step, which takes a large share of the time. This module packs them only once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SMALLEST = 100_000  # for smaller layers, the overhead of the call exceeds the gain


class PackedLinear(nn.Linear):
    """A linear layer that keeps a packed copy of its weight."""

    packed: Tensor | None = None
    packed_from: tuple[int, int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of nn.Linear; rounding may differ if gradients are disabled."""
        weight = self.weight
        fits = x.is_cpu and weight.is_cpu and x.dtype is weight.dtype is torch.float32
        if torch.is_grad_enabled() or not fits or weight.is_inference():
            return super().forward(x)
        now = weight.data_ptr(), weight._version  # changes with the weight
        if self.packed_from != now:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
            self.packed_from = now
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def __getstate__(self) -> dict:
        """Exclude the packed weight, because torch cannot copy it."""
        return {**vars(self), "packed": None, "packed_from": None}


def pack(model: nn.Module) -> None:
    """Convert all large linear layers to PackedLinear if this version of torch supports oneDNN."""
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        for layer in model.modules():
            if type(layer) is nn.Linear and layer.weight.numel() >= SMALLEST:
                layer.__class__ = PackedLinear


def packed_layers(model: nn.Module) -> list[PackedLinear]:
    return [layer for layer in model.modules() if isinstance(layer, PackedLinear)]


def forget(model: nn.Module) -> None:
    """Discard all packed weights.

    fairseq's optimizers change weights through `.data`, which does not increment a tensor's
    version. Therefore changed weights cannot always be detected.
    """
    for layer in packed_layers(model):
        layer.packed = layer.packed_from = None


def unpack(model: nn.Module) -> None:
    forget(model)
    for layer in packed_layers(model):
        layer.__class__ = nn.Linear  # type: ignore[assignment]  # restores the base class
