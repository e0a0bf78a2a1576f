"""Softmax over the states that a step may look at, and which those are."""

from __future__ import annotations

from torch import Tensor

from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.pipeline import softmax_weights


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Over the allowed keys, in float32 at least; a row with nothing allowed gives zeros."""
    return softmax_weights(at_least_float32(scores), allowed)


def past_states(queries: Tensor, keys: Tensor, include_current: bool = True) -> Tensor:
    """Which of the steps `keys` (K) each of the steps `queries` (Q) may look at: Q K."""
    if include_current:
        return keys[None, :] <= queries[:, None]
    return keys[None, :] < queries[:, None]
