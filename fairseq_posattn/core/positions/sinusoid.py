"""A sinusoid turns a number into a vector (Vaswani et al. 2017; Eq. 3 of Wang et al. 2019)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def sinusoid(values: Tensor, width: int) -> Tensor:
    """Return the sinusoids of integers of any shape, float32 [..., width], in fairseq's layout.

    The value itself is used, without the offset of fairseq's table: in that table the row of
    padding is zero, so depth 1, looked up there, would be a zero vector.
    """
    half = width // 2
    steps = torch.arange(half, device=values.device, dtype=torch.float32)
    frequencies = torch.exp(steps * -(math.log(10000) / max(half - 1, 1)))
    angles = values.unsqueeze(-1).float() * frequencies
    return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, width % 2))
