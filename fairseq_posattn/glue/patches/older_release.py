"""Undo three things that fairseq 0.12.2 does but its successor does not.

The objects show whether a patch is needed. The number of the release does not, because fairseq's
own main branch calls itself 0.12.2, too.
"""

from __future__ import annotations

import functools

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from fairseq_posattn.glue.patches.patch import Patch

RELEASE = "0.12.2", "fairseq 0.12.2 is no longer used"  # which one, and until when
GIVEN_UP = ("_float_tensor", "weights")  # fairseq-fixed ignores these keys, too


def without_fast_path(init):
    """Wrap TransformerEncoderLayerBase.__init__ so that the layer always computes as in
    training."""

    @functools.wraps(init)
    def init_plain(layer, *args, **kwargs):
        init(layer, *args, **kwargs)
        if hasattr(layer, "can_use_fastpath"):
            layer.can_use_fastpath = False

    return init_plain


def nothing_to_store(init):
    """Wrap SinusoidalPositionalEmbedding.__init__ to keep a number out of checkpoints that only
    tells device and type."""

    @functools.wraps(init)
    def init_unstored(embedding, *args, **kwargs):
        init(embedding, *args, **kwargs)
        if "_float_tensor" in embedding.state_dict():
            embedding.register_buffer("_float_tensor", torch.zeros(1), persistent=False)

    return init_unstored


def nothing_to_load(load_from_state_dict):
    """Wrap SinusoidalPositionalEmbedding._load_from_state_dict to load checkpoints with or without
    that number."""

    @functools.wraps(load_from_state_dict)
    def load_rest(embedding, state_dict, prefix, *args, **kwargs):
        for key in GIVEN_UP:
            state_dict.pop(prefix + key, None)
        load_from_state_dict(embedding, state_dict, prefix, *args, **kwargs)

    return load_rest


PATCHES = [
    Patch(
        TransformerEncoderLayerBase,
        "__init__",
        without_fast_path,
        "Stock encoders end in 'Mask Type should be defined', as torch 2 calls its fast path "
        "otherwise, and do not show their attention.",
        *RELEASE,
    ),
    Patch(
        SinusoidalPositionalEmbedding,
        "__init__",
        nothing_to_store,
        "Checkpoints hold a number of uninitialised memory, so equal trainings differ.",
        *RELEASE,
    ),
    Patch(
        SinusoidalPositionalEmbedding,
        "_load_from_state_dict",
        nothing_to_load,
        "A checkpoint of the successor, which lacks that number, cannot be loaded.",
        *RELEASE,
    ),
]
