"""How the position in the sequence and the position in the tree become one (f_abs of Eq. 7).

The paper prints no formula for its nonlinear function; the one here is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Add(nn.Module):
    """seq + tree: no parameters (the paper's footnote 1)."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        return sequence + tree


class Nonlinear(nn.Module):
    """tanh(W [seq ; tree] + b): the paper's main variant."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(2 * width, width)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        return torch.tanh(self.projection(torch.cat([sequence, tree], dim=-1)))


FUSERS = {"add": Add, "nonlinear": Nonlinear}
