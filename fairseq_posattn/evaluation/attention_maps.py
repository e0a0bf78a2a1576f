"""Compute the attention of an encoder for one sentence, and pack it for a JSON file."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel


def attention(model: FairseqEncoderDecoderModel, sample: dict) -> np.ndarray:
    """Return the weights of the first sentence of a batch: layers x heads x queries x keys."""
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    with torch.no_grad():
        weights = weights_of(model.encoder, fields)
    return torch.stack([of_layer[0] for of_layer in weights]).float().cpu().numpy()


def weights_of(encoder: FairseqEncoder, fields: dict) -> list[torch.Tensor]:
    """Return the weights of each layer, B H Q K."""
    if hasattr(encoder, "needs_tree"):  # it is an encoder of this package
        return encoder(**fields, need_weights=True)["attention_weights"]
    return weights_of_stock(encoder, fields)


def weights_of_stock(encoder: FairseqEncoder, fields: dict) -> list[torch.Tensor]:
    """Return the weights of fairseq's encoder, which has no option for them, from hooks on its
    layers."""
    found: list[torch.Tensor] = []

    def ask(module, arguments, options):
        return arguments, {**options, "need_weights": True, "need_head_weights": True}

    def keep(module, arguments, output):
        found.append(output[1].transpose(0, 1))  # H B Q K -> B H Q K

    hooks = []
    for layer in encoder.layers:
        layer.self_attn._set_skip_embed_dim_check()  # torch's attention averages the heads
        hooks.append(layer.self_attn.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(layer.self_attn.register_forward_hook(keep))
    try:
        encoder(**{k: v for k, v in fields.items() if k != "source_tree"})
    finally:
        for hook in hooks:
            hook.remove()
    if len(found) != len(encoder.layers):
        raise InputError(
            f"{type(encoder).__name__} does not show its attention; take a model with another "
            "encoder"
        )
    return found


def packed(weights: np.ndarray) -> dict[str, Any]:
    """Return the weights as bytes in base64.

    A byte of 255 means 1, or `largest` where convolved attention has a weight above 1.
    """
    layers, heads, queries, keys = weights.shape
    largest = max(1.0, float(weights.max()))
    numbers = np.round(255 * weights / largest).astype(np.uint8)
    return {
        "layers": layers,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        **({"largest": largest} if largest > 1 else {}),
        "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }
