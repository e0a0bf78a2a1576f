"""A step of an LSTM may look at some states only, and its softmax is taken over those."""

from __future__ import annotations

from torch import Tensor

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the softmax over the allowed keys, in float32 at least; an empty row gives zeros."""
    return softmax_weights(at_least_float32(scores), allowed)


def past_states(queries: Tensor, keys: Tensor, include_current: bool = True) -> Tensor:
    """Tell which of the steps `keys` (K) each of the steps `queries` (Q) may look at, Q K."""
    if include_current:
        return keys[None, :] <= queries[:, None]
    return keys[None, :] < queries[:, None]
