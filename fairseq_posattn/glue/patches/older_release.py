"""What fairseq 0.12.2 does and its successor has given up.

Both are seen by what the objects have, not by the number of the release: fairseq's own main branch
calls itself 0.12.2, too.
"""

from __future__ import annotations

import functools

import torch

GIVEN_UP = ("_float_tensor", "weights")  # the successor drops these keys, too


def without_fast_path(init):
    """TransformerEncoderLayerBase.__init__: let the layer compute as it
    does in training."""

    @functools.wraps(init)
    def init_plain(layer, *args, **kwargs):
        init(layer, *args, **kwargs)
        if hasattr(layer, "can_use_fastpath"):
            layer.can_use_fastpath = False

    return init_plain


def nothing_to_store(init):
    """SinusoidalPositionalEmbedding.__init__: a number that only tells device and type stays out
    of checkpoints."""

    @functools.wraps(init)
    def init_unstored(embedding, *args, **kwargs):
        init(embedding, *args, **kwargs)
        if "_float_tensor" in embedding.state_dict():
            embedding.register_buffer("_float_tensor", torch.zeros(1), persistent=False)

    return init_unstored


def nothing_to_load(load_from_state_dict):
    """SinusoidalPositionalEmbedding._load_from_state_dict: whether or not the number is there."""

    @functools.wraps(load_from_state_dict)
    def load_rest(embedding, state_dict, prefix, *args, **kwargs):
        for key in GIVEN_UP:
            state_dict.pop(prefix + key, None)
        load_from_state_dict(embedding, state_dict, prefix, *args, **kwargs)

    return load_rest
