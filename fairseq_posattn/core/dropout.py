"""Dropout on CPUs, about twice as fast as torch's implementation.

torch draws one random number per element. Here, 64 random bits are used for four elements, so the
dropout rate is rounded to a multiple of 2^-16. The remaining elements are divided by one minus
this rounded rate.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

STEPS = 2**16  # the dropout rate is a multiple of 1 / STEPS


def fast_dropout(x: Tensor, rate: float) -> Tensor:
    """Apply dropout to x; on devices other than CPUs, torch's own dropout is used."""
    dropped = round(rate * STEPS)
    if x.device.type != "cpu" or not 0 < dropped < STEPS:
        return F.dropout(x, rate)
    found: Tensor = Dropped.apply(x, dropped)  # type: ignore[no-untyped-call]
    return found


def kept_elements(like: Tensor, dropped: int) -> Tensor:
    """Draw a boolean mask of the elements to keep, with the shape of `like`."""
    count = like.numel()
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    chosen = bits.view(torch.int16)[:count] >= dropped - STEPS // 2  # the lowest int16 is -2^15
    return chosen.view(like.shape)


class Dropped(torch.autograd.Function):
    """Dropout that saves only the boolean mask for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        kept = kept_elements(x, dropped)
        ctx.save_for_backward(kept)
        ctx.scale = STEPS / (STEPS - dropped)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None
