"""Softmax over the states that a step may look at, and which those are."""

from __future__ import annotations

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """In float32 at least: half precision is too coarse for positions and exponents."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Over the allowed keys, in float32 at least; a row with nothing allowed gives zeros."""
    # a finite number, not -inf: an empty row must not become NaN, forward or backward
    scores = precise(scores).masked_fill(~allowed, torch.finfo(torch.float32).min)
    return torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)


def past_states(queries: Tensor, keys: Tensor, include_current: bool = True) -> Tensor:
    """Which of the steps `keys` (K) each of the steps `queries` (Q) may look at: Q K."""
    if include_current:
        return keys[None, :] <= queries[:, None]
    return keys[None, :] < queries[:, None]
