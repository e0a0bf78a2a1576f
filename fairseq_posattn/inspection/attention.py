"""Return the attention weights of a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel


def encoder_inputs(sample: dict) -> dict[str, Any]:
    """Return the encoder inputs of a batch."""
    return {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}


@torch.no_grad()
def encoder_attention(model: FairseqEncoderDecoderModel, sample: dict) -> np.ndarray:
    """Return the encoder's attention weights for the first sentence of a batch.

    The array is of shape (layers, heads, queries, keys).
    """
    return of_first_sentence(weights_of(model.encoder, encoder_inputs(sample)))


@torch.no_grad()
def decoder_attention(
    model: FairseqEncoderDecoderModel, sample: dict, tokens: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Return the decoder's self- and cross-attention weights for the generation of `tokens`.

    Both arrays are of shape (layers, heads, queries, keys). Query k is the step that predicts token
    k. The keys of self-attention are the previous tokens, starting with the end-of-sentence token.
    """
    encoded = model.encoder(**encoder_inputs(sample))
    read = torch.cat([tokens[-1:], tokens[:-1]])[None].long()  # fairseq starts with </s>
    with recorded_weights(model.decoder, "self_attn", "encoder_attn") as found:
        model.decoder(read, encoder_out=encoded)
    return of_first_sentence(found["self_attn"]), of_first_sentence(found["encoder_attn"])


def of_first_sentence(layers: list[Tensor]) -> np.ndarray:
    return torch.stack([of_layer[0] for of_layer in layers]).float().cpu().numpy()


def weights_of(encoder: FairseqEncoder, inputs: dict[str, Any]) -> list[Tensor]:
    """Return the attention weights of each layer, of shape (batch, heads, queries, keys)."""
    if hasattr(encoder, "needs_tree"):  # an encoder of this package
        found: list[Tensor] = encoder(**inputs, need_weights=True)["attention_weights"]
        return found
    # fairseq's encoders do not return attention weights
    with recorded_weights(encoder, "self_attn") as recorded:
        encoder(**{k: v for k, v in inputs.items() if k != "source_tree"})
    return recorded["self_attn"]


def shows_attention(owner: Any, *names: str) -> bool:
    """Return whether each layer of an encoder or decoder has all of these attention modules."""
    layers = list(getattr(owner, "layers", ()))
    return bool(layers) and all(getattr(at, name, None) for at in layers for name in names)


@contextmanager
def recorded_weights(owner: Any, *names: str) -> Iterator[dict[str, list[Tensor]]]:
    """Record the weights of fairseq's attention modules with these names, in each layer.

    The weights are of shape (batch, heads, queries, keys). Raises InputError if a layer has no such
    module, or does not return its weights.
    """
    kind = type(owner).__name__
    if not shows_attention(owner, *names):
        raise InputError(f"{kind} has no attention to show; use the checkpoint of a Transformer")
    found: dict[str, list[Tensor]] = {name: [] for name in names}

    def request(module, arguments, options):
        return arguments, {**options, "need_weights": True, "need_head_weights": True}

    def record(name, module, arguments, output):
        found[name].append(output[1].transpose(0, 1))  # H B Q K -> B H Q K

    with ExitStack() as hooks:
        for name in names:
            for module in (getattr(layer, name) for layer in owner.layers):
                if hasattr(module, "_set_skip_embed_dim_check"):
                    module._set_skip_embed_dim_check()  # torch's attention averages over heads
                hooks.enter_context(module.register_forward_pre_hook(request, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(partial(record, name)))
        yield found
    if any(len(of_layers) != len(owner.layers) for of_layers in found.values()):
        raise InputError(
            f"{kind} does not return its attention weights; use a model with another encoder and "
            "decoder"
        )
