"""Translate on a CPU with the weights of linear layers in eight bits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.models.packed import unpack


def quantize(model: nn.Module) -> None:
    """Replace the linear layers by torch's dynamic ones: weights in int8, a scale for each tensor.

    Their inputs are quantised as they come. Embeddings, softmax and normalisation stay as they are,
    and so does the attention of a stock encoder, which hands its weights to a kernel of torch.
    """
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise InputError("--int8 works on a CPU only; give --cpu, or leave it out")
    if not hasattr(torch.ao, "quantization"):
        raise InputError("--int8: this release of torch has no such layers; leave it out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a later release may have none
        unpack(model)
        names = set(linear_layers(model))
        torch.ao.quantization.quantize_dynamic(model, names, torch.qint8, inplace=True)


def linear_layers(model: nn.Module) -> Iterator[str]:
    """Yield the names of the linear layers that are called as such."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        parent = modules[name.rpartition(".")[0]]
        in_kernel = isinstance(parent, MultiheadAttention) and name.startswith("encoder.")
        if isinstance(module, nn.Linear) and not in_kernel:
            yield name
