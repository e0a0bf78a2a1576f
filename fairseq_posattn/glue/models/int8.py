"""Quantise the weights of linear layers to 8 bits, for translation on a CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.models.packed import unpack


def quantize(model: nn.Module) -> None:
    """Apply torch's dynamic quantisation to linear layers: int8 weights, one scale per tensor.

    Embeddings, softmax and normalisation are not quantised, nor is the attention of a stock
    encoder, which passes its weights to a fused kernel of torch.
    """
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise InputError("--int8 works on a CPU only; add --cpu, or leave it out")
    if not hasattr(torch.ao, "quantization"):
        raise InputError("--int8 needs torch.ao.quantization, which this torch lacks; leave it out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the function is deprecated
        unpack(model)
        names = set(linear_layers(model))
        torch.ao.quantization.quantize_dynamic(model, names, torch.qint8, inplace=True)


def linear_layers(model: nn.Module) -> Iterator[str]:
    """Yield the names of the linear layers that a fused kernel does not bypass."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        parent = modules[name.rpartition(".")[0]]
        in_kernel = isinstance(parent, MultiheadAttention) and name.startswith("encoder.")
        if isinstance(module, nn.Linear) and not in_kernel:
            yield name
