"""A fuser joins the position in the sequence and the one in the tree (Wang et al. 2019, f_abs of
Eq. 7).

The paper prints no formula for its nonlinear function; the one here is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Add(nn.Module):
    """The sum seq + tree has no parameters (the paper's footnote 1)."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        """Return the sum of the two positions, which have the same shape."""
        return sequence + tree


class Nonlinear(nn.Module):
    """The projection tanh(W [seq ; tree] + b) is the paper's main variant."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(2 * width, width)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        """Return the fused position, as wide as each of the two."""
        return torch.tanh(self.projection(torch.cat([sequence, tree], dim=-1)))


FUSERS = {"add": Add, "nonlinear": Nonlinear}
