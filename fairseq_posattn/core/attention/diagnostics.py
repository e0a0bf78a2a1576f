"""Collect diagnostics of the mechanisms in a model, such as learnt window widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from fairseq_posattn.core.attention.mechanism import Mechanism


class Diagnostic(NamedTuple):
    """A diagnostic of a mechanism in one layer.

    place: path of the module that contains the mechanism, such as encoder.layers.0.self_attn.
    heads: the attention head of each value; empty if there is a single value for the layer.
    """

    place: str
    mechanism: str
    name: str
    heads: list[int]
    values: list[float]


@torch.no_grad()
def diagnostics_of(model: nn.Module) -> Iterator[Diagnostic]:
    """Yield the diagnostics of all mechanisms in a model, in the order of its modules."""
    for path, module in model.named_modules():
        if isinstance(module, Mechanism):
            place = path.rpartition(".mechanisms.")[0] or path
            for name, numbers in module.diagnostics().items():
                heads = list(module.heads or range(module.head_count)) if numbers.dim() else []
                values = numbers.detach().float().reshape(-1).tolist()
                yield Diagnostic(place, module.name, name, heads, values)


def watch(model: nn.Module, watching: bool = True) -> None:
    """Enable or disable the recording of values that mechanisms predict, for diagnostics."""
    for module in model.modules():
        if isinstance(module, Mechanism):
            module.watching = watching
