"""Translate on a CPU with weights in the order in which oneDNN multiplies them.

A step of a decoder multiplies each weight with few rows. torch sorts the weight anew each time,
which takes a good part of the product; here it is sorted once for each translation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SMALLEST = 100_000  # with fewer weights, a call of oneDNN takes longer than is gained


class PackedLinear(nn.Linear):
    """A linear layer that keeps a sorted copy of its weight, of which nobody else knows."""

    packed: Tensor | None = None
    packed_from: tuple[int, int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return what nn.Linear returns, up to rounding where no gradients are wanted."""
        weight = self.weight
        fits = x.is_cpu and weight.is_cpu and x.dtype is weight.dtype is torch.float32
        if torch.is_grad_enabled() or not fits or weight.is_inference():
            return super().forward(x)
        now = weight.data_ptr(), weight._version  # another one when numbers change
        if self.packed_from != now:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
            self.packed_from = now
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def __getstate__(self) -> dict:
        """Leave the sorted weight out of copies, as torch cannot copy it."""
        return {**vars(self), "packed": None, "packed_from": None}


def pack(model: nn.Module) -> None:
    """Let all large linear layers sort their weights, if this torch can."""
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        for layer in model.modules():
            if type(layer) is nn.Linear and layer.weight.numel() >= SMALLEST:
                layer.__class__ = PackedLinear


def packed_layers(model: nn.Module) -> list[PackedLinear]:
    return [layer for layer in model.modules() if isinstance(layer, PackedLinear)]


def forget(model: nn.Module) -> None:
    """Let all layers sort their weights again: what is written through `.data`, as fairseq's
    optimizers do, changes no version."""
    for layer in packed_layers(model):
        layer.packed = layer.packed_from = None


def unpack(model: nn.Module) -> None:
    """Undo `pack`."""
    forget(model)
    for layer in packed_layers(model):
        layer.__class__ = nn.Linear  # type: ignore[assignment]  # back to its base
