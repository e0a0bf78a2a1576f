"""Compute a model's attention weights for one sentence, and encode them for JSON."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel


def attention(model: FairseqEncoderDecoderModel, sample: dict) -> np.ndarray:
    """Return the encoder's attention weights for the first sentence of a batch.

    The array is of shape (layers, heads, queries, keys).
    """
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    with torch.no_grad():
        weights = weights_of(model.encoder, fields)
    return torch.stack([of_layer[0] for of_layer in weights]).float().cpu().numpy()


def weights_of(encoder: FairseqEncoder, fields: dict) -> list[torch.Tensor]:
    """Return the attention weights of each layer, of shape (batch, heads, queries, keys)."""
    if hasattr(encoder, "needs_tree"):  # an encoder of this package
        return encoder(**fields, need_weights=True)["attention_weights"]
    # fairseq's encoders do not return attention weights
    with recorded(modules_of(encoder, "self_attn")) as found:
        encoder(**{k: v for k, v in fields.items() if k != "source_tree"})
    return complete(found, encoder)


def modules_of(owner: Any, name: str) -> list[torch.nn.Module]:
    """Return the attention module called `name` of each layer in an encoder or decoder.

    Raises InputError if a layer has no such module.
    """
    if not shows_attention(owner, name):
        raise InputError(
            f"{type(owner).__name__} has no attention to show; use the checkpoint of a Transformer"
        )
    return [getattr(layer, name) for layer in owner.layers]


def shows_attention(owner: Any, *names: str) -> bool:
    """Return whether each layer of an encoder or decoder has all of these attention modules."""
    layers = list(getattr(owner, "layers", ()))
    return bool(layers) and all(getattr(at, name, None) for at in layers for name in names)


@contextlib.contextmanager
def recorded(modules: Sequence[torch.nn.Module]) -> Iterator[list[torch.Tensor]]:
    """Yield a list to which each call of fairseq's attention `modules` appends its weights.

    The weights are of shape (batch, heads, queries, keys).
    """
    found: list[torch.Tensor] = []

    def ask(module, arguments, options):
        return arguments, {**options, "need_weights": True, "need_head_weights": True}

    def keep(module, arguments, output):
        found.append(output[1].transpose(0, 1))  # H B Q K -> B H Q K

    hooks = []
    for module in modules:
        if hasattr(module, "_set_skip_embed_dim_check"):
            module._set_skip_embed_dim_check()  # type: ignore[operator]  # torch's attention averages over heads
        hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(module.register_forward_hook(keep))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def complete(found: list[torch.Tensor], owner: Any) -> list[torch.Tensor]:
    """Return the recorded weights; raise an InputError if the weights of any layer are missing."""
    if len(found) != len(owner.layers):
        raise InputError(
            f"{type(owner).__name__} does not return its attention weights; use a model with "
            "another encoder and decoder"
        )
    return found


@torch.no_grad()
def decoder_attention(
    model: FairseqEncoderDecoderModel, sample: dict, tokens: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Return the decoder's self- and cross-attention weights for the generation of `tokens`.

    Both arrays are of shape (layers, heads, queries, keys). Query k is the step that predicts token
    k. The keys of self-attention are the previous tokens, starting with the end-of-sentence token.
    """
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    encoded, decoder = model.encoder(**fields), model.decoder
    read = torch.cat([tokens[-1:], tokens[:-1]])[None].long()  # fairseq starts with </s>
    with (
        recorded(modules_of(decoder, "self_attn")) as own,
        recorded(modules_of(decoder, "encoder_attn")) as crossing,
    ):
        decoder(read, encoder_out=encoded)
    both = [complete(found, decoder) for found in (own, crossing)]
    first, second = (torch.stack([w[0] for w in found]).float().cpu().numpy() for found in both)
    return first, second


def packed(weights: np.ndarray) -> dict[str, Any]:
    """Encode attention weights as base64, with one byte per weight.

    The byte 255 represents 1, or `largest` if a weight exceeds 1 (as in convolved attention).
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
