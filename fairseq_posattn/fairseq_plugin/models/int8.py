"""Prepack the weights of linear layers, or quantise them to 8 bits, for translation on a CPU.

In a decoding step, each weight matrix is multiplied by only a few rows. torch repacks the weights
in each step, which takes a large share of the time. `pack` packs them only once, for oneDNN.
"""

import warnings
from collections.abc import Iterator

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_posattn.errors import InputError

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


def quantize(model: nn.Module) -> None:
    """Quantise linear layers dynamically with torch, to int8 weights with one scale per tensor.

    Embeddings, softmax and normalisation are not quantised. The attention of a stock encoder is not
    quantised either, because it passes its weights to one of torch's fused kernels.
    """
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise InputError("--int8 works on a CPU only; add --cpu, or omit --int8")
    if not hasattr(torch.ao, "quantization"):
        raise InputError(
            "--int8 needs torch.ao.quantization, which this version of torch lacks; omit --int8"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the function is deprecated
        unpack(model)
        names = set(linear_layers(model))
        torch.ao.quantization.quantize_dynamic(model, names, torch.qint8, inplace=True)


def linear_layers(model: nn.Module) -> Iterator[str]:
    """Yield the names of all linear layers except those whose weights a fused kernel reads."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        parent = modules[name.rpartition(".")[0]]
        in_kernel = isinstance(parent, MultiheadAttention) and name.startswith("encoder.")
        if isinstance(module, nn.Linear) and not in_kernel:
            yield name
