"""This is the shortest way from a specification to a layer, for use in plain PyTorch."""

from __future__ import annotations

from torch import nn

from fairseq_posattn.core.attention.mechanism import AttentionShape
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.registry import AttentionSpecification
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.errors import InputError


def build_self_attention(
    specification: str,
    width: int,
    heads: int,
    *,
    layer: int = 0,
    layers: int = 1,
    max_positions: int = 1024,
    dropout: float = 0.0,
    relations: int = 0,
) -> MultiheadSelfAttention:
    """Return the self-attention of one layer of a model, with the mechanisms of a specification.

    `layer` counts from 0 and matters for mechanisms that act in some layers only (`@0-2`).
    `relations` is the number of labels of relations, where a mechanism reads them. Raise an
    InputError, which says what would be right, if the numbers or the specification cannot work.
    """
    if heads < 1:
        raise InputError(f"heads={heads}: give at least one attention head")
    if not 0 <= layer < layers:
        raise InputError(f"layer={layer}: with layers={layers} there are 0 to {layers - 1}")
    read = AttentionSpecification(specification)
    shape = AttentionShape(heads, width // heads, max_positions, relations)
    read.check(layers, shape)
    if read.needs_labels and relations <= UNKNOWN_LABEL:
        raise InputError(
            f"'{read}' reads the relations of words; say with relations=... how many numbers they "
            f"have, of which the first {UNKNOWN_LABEL} are not those of words"
        )
    rate = nn.Dropout(dropout) if dropout else None
    return MultiheadSelfAttention(width, heads, read.build(layer, shape), rate)
