"""Dropout takes about half of torch's time here on a CPU.

torch draws a number of its own for each element. Here each 64 random bits decide about four
elements, so a rate is rounded to the next multiple of 2^-16. What is kept is divided by the exact
share that is kept.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

STEPS = 2**16  # a rate has this many values


def fast_dropout(x: Tensor, rate: float) -> Tensor:
    """Return x with elements set to zero at this rate, and the others made larger instead.

    Elsewhere than on a CPU it is torch's own dropout.
    """
    dropped = round(rate * STEPS)
    if x.device.type != "cpu" or not 0 < dropped < STEPS:
        return F.dropout(x, rate)
    found: Tensor = Dropped.apply(x, dropped)  # type: ignore[no-untyped-call]
    return found


def kept_elements(like: Tensor, dropped: int) -> Tensor:
    """Return which elements are kept, bool, of the shape of another tensor."""
    count = like.numel()
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    chosen = bits.view(torch.int16)[:count] >= dropped - STEPS // 2  # int16 begins at -2^15
    return chosen.view(like.shape)


class Dropped(torch.autograd.Function):
    """Sets elements to zero, and the same ones of the gradient."""

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
