"""Translate on a CPU with the weights of linear layers in eight bits."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from fairseq_posattn.errors import InputError


def quantize(model: nn.Module) -> None:
    """Replace the linear layers by torch's dynamic ones: weights in int8, a scale for each tensor.

    Their inputs are quantised as they come. Embeddings, softmax and normalisation stay as they are.
    """
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise InputError("--int8 works on a CPU only; give --cpu, or leave it out")
    if not hasattr(torch.ao, "quantization"):
        raise InputError("--int8: this release of torch has no such layers; leave it out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a later release may have none
        torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, torch.qint8, inplace=True)
