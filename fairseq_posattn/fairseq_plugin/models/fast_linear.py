"""Faster linear layers for translation on a CPU.

In a decoding step, each weight matrix is multiplied by only a few rows. Depending on the CPU, this
is faster if the matrix is stored in column-major order, or in the blocks of oneDNN. One product is
faster than several with the same input.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

SMALLEST = 100_000  # for smaller layers, the gain is not worth a copy
ROWS = (4, 16, 64)  # for which to measure whether copies are faster
WORTHWHILE = 0.97  # the largest ratio of times for which copies are used
SAMPLED = 997  # every 997th weight enters the fingerprint


class FastLinear(nn.Linear):
    """A linear layer that keeps a copy of its weight in column-major order."""

    copy: Tensor | None = None
    copied_from: tuple | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of nn.Linear; rounding may differ if gradients are disabled."""
        weight = self.weight
        if torch.is_grad_enabled() or not weight.is_cpu:
            return super().forward(x)
        if self.copy is None or self.copy.dtype is not weight.dtype:
            self.copy = self.copied(weight.detach())
            self.copied_from = fingerprint(weight)
        return self.product(x.reshape(-1, x.size(-1)), self.copy).view(*x.shape[:-1], -1)

    def copied(self, weight: Tensor) -> Tensor:
        return weight.t().contiguous()

    def product(self, x: Tensor, copy: Tensor) -> Tensor:
        return x @ copy if self.bias is None else torch.addmm(self.bias, x, copy)

    def __getstate__(self) -> dict:
        """Exclude the copy."""
        return {**vars(self), "copy": None, "copied_from": None}


class BlockedLinear(FastLinear):
    """A linear layer that keeps a copy of its weight in the blocks of oneDNN."""

    def copied(self, weight: Tensor) -> Tensor:
        if weight.dtype is not torch.float32:
            return super().copied(weight)
        return torch.ops.mkldnn._reorder_linear_weight(weight, ROWS[-1])

    def product(self, x: Tensor, copy: Tensor) -> Tensor:
        if not copy.is_mkldnn:
            return super().product(x, copy)
        return torch.ops.mkldnn._linear_pointwise(x, copy, self.bias, "none", [], "")


def fingerprint(weight: Tensor) -> tuple:
    """Return a value that changes with the weight.

    fairseq's optimizers change weights through `.data`, which does not increment their version.
    """
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, float(weight.detach().reshape(-1)[::SAMPLED].sum())


class Joined:
    """Some layers of a module, which have the same input, computed by one product."""

    def __init__(self, module: nn.Module, names: Sequence[str]):
        self.module, self.names = module, names
        self.layers = [module.get_submodule(name) for name in names]
        self.whole = joined(self.layers)
        self.made_from = self.fingerprints()

    def fingerprints(self) -> list[tuple]:
        return [fingerprint(one.weight) for one in self.layers if isinstance(one, nn.Linear)]

    def is_old(self) -> bool:
        """Return whether the layers or their weights have been replaced."""
        now = [self.module.get_submodule(name) for name in self.names]
        return now != self.layers or self.fingerprints() != self.made_from

    def __call__(self, x: Tensor) -> Sequence[Tensor]:
        """Return the output of each layer."""
        if self.whole is None:
            return [layer(x) for layer in self.layers]
        return self.whole(x).chunk(len(self.layers), dim=-1)


def joined(layers: Sequence[nn.Module]) -> nn.Module | None:
    """Return one layer with the outputs of all layers, or None for unsupported kinds of layers."""
    if all(hasattr(layer, "_packed_params") for layer in layers):
        return joined_quantized(layers)
    plain = [one for one in layers if isinstance(one, nn.Linear)]
    biases: list[Tensor] = [layer.bias for layer in plain if layer.bias is not None]
    if len(plain) < len(layers) or len(biases) not in (0, len(plain)):
        return None
    whole = nn.Linear(1, 1, bias=bool(biases))
    whole.weight = nn.Parameter(torch.cat([layer.weight for layer in plain]), False)
    if biases:
        whole.bias = nn.Parameter(torch.cat(biases), False)
    whole.__class__ = type(plain[0])
    return whole


def joined_quantized(layers: Sequence[Any]) -> Any:
    """Join torch's 8-bit layers; each row of the weight keeps its scale."""
    weights = [layer.weight() for layer in layers]
    scales = torch.cat([torch.full((len(w),), w.q_scale(), dtype=torch.float64) for w in weights])
    points = torch.cat([torch.full((len(w),), w.q_zero_point()) for w in weights])
    integers = torch.cat([w.int_repr() for w in weights])
    weight = torch._make_per_channel_quantized_tensor(integers, scales, points, 0)
    biases = [layer.bias() for layer in layers]
    whole = type(layers[0])(weight.size(1), weight.size(0))
    whole.set_weight_bias(weight, None if None in biases else torch.cat(biases))
    return whole


def use_fast_linear(model: nn.Module) -> None:
    """Convert large linear layers to the class that is fastest on this machine."""
    layers = [m for m in model.modules() if type(m) is nn.Linear and m.weight.numel() >= SMALLEST]
    convert(layers, fastest_class(layers))


def convert(layers: Sequence[nn.Linear], kind: type[nn.Linear]) -> None:
    """Change the class of linear layers, and discard their copies."""
    for layer in layers:
        layer.__dict__.pop("copy", None)
        layer.__class__ = kind


def fast_layers(model: nn.Module) -> list[FastLinear]:
    return [layer for layer in model.modules() if isinstance(layer, FastLinear)]


def forget_old_weights(model: nn.Module) -> None:
    """Discard all copies of weights that have changed since."""
    for layer in fast_layers(model):
        if layer.copy is not None and layer.copied_from != fingerprint(layer.weight):
            layer.copy = layer.copied_from = None
    for module in model.modules():
        joined = vars(module).get("joined")
        if joined is not None and joined.is_old():
            del module.joined


@torch.no_grad()
def fastest_class(layers: Sequence[nn.Linear]) -> type[nn.Linear]:
    """Measure which class computes the products of all layers fastest."""
    if not all(layer.weight.is_cpu for layer in layers):
        return FastLinear  # copies are used on a CPU only
    kinds = [nn.Linear, FastLinear, BlockedLinear]
    taken = dict.fromkeys(kinds[: 2 + torch.backends.mkldnn.is_available()], 0.0)
    for kind in taken:
        convert(layers, kind)
        for rows in ROWS:
            inputs = [layer.weight.new_ones(rows, layer.in_features) for layer in layers]
            seconds(layers, inputs)  # copies the weights
            taken[kind] += min(seconds(layers, inputs) for _ in range(3))
    taken[nn.Linear] *= WORTHWHILE
    return min(taken, key=taken.__getitem__)


def seconds(layers: Sequence[nn.Linear], inputs: Sequence[Tensor]) -> float:
    """Return the total time to apply each layer once."""
    start = perf_counter()
    for layer, x in zip(layers, inputs, strict=True):
        layer(x)
    return perf_counter() - start
