"""Quantise linear layers to 8 bits, for translation on a CPU."""

import warnings
from collections.abc import Iterator

import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.fast_linear import convert, fast_layers


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
        convert(fast_layers(model), nn.Linear)
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
