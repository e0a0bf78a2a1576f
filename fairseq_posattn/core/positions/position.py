"""A position is a small module that gives each piece a vector before the first layer.

A sinusoid turns a number into a vector (Vaswani et al. 2017; Eq. 3 of Wang et al. 2019). The
position in the sequence and the one in the tree are added (footnote 1), or joined by a nonlinear
function (f_abs of Eq. 7), for which the paper prints no formula: the one here is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import NoOptions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class PositionShape:
    """These are the sizes that a position may need to build its parameters."""

    width: int  # the width of the vectors
    max_positions: int = 1024  # the longest input that the model takes
    relations: int = 0  # how many names of relations there are, if a position reads labels
    tags: int = 0  # how many parts of speech there are, if a position reads labels


class Position(nn.Module):
    """All positions derive from this class and describe themselves by its class attributes."""

    name: ClassVar[str]  # what a specification calls it
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    paper: ClassVar[str] = ""  # the citation that `help` prints
    needs_tree: ClassVar[bool] = False  # whether it reads ctx.tree
    needs_labels: ClassVar[tuple[str, ...]] = ()  # of "relations", "tags": what of ctx.tree.labels
    causal_safe: ClassVar[bool] = False  # may stand in a decoder: the future changes nothing

    def __init__(self, options: Any, shape: PositionShape):
        super().__init__()
        self.options = options  # an instance of Options
        self.shape = shape
        self.make_parameters()

    def make_parameters(self) -> None:
        """Make what is learnt, by self.options and self.shape."""

    @classmethod
    def check(cls, options: Any, shape: PositionShape) -> None:
        """Raise a ValueError that says why it cannot work in a model of this shape."""

    @property
    def changes_input(self) -> bool:
        """Return whether it changes the sum of embeddings and positions instead of adding to it."""
        return False

    def change(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return another input, B Q C, where `changes_input`; x is what all others have made."""
        raise NotImplementedError

    def forward(self, ctx: AttentionContext) -> Tensor:
        """Return the vectors that are added to the embeddings, B Q C or 1 Q C.

        The queries are all pieces, or the last ones when a decoder works step by step. Take
        positions from `ctx.positions`, which counts real pieces, and never count columns.
        """
        raise NotImplementedError


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


class Nonlinear(nn.Module):
    """The projection tanh(W [seq ; tree] + b) is the paper's main variant."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(2 * width, width)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        return torch.tanh(self.projection(torch.cat([sequence, tree], dim=-1)))
