"""Base class of positions: modules that add a vector to each piece before the first layer.

Sinusoidal embeddings map a number to a vector (Vaswani et al. 2017; Eq. 3 of Wang et al. 2019).
Sequence and tree positions are added (footnote 1), or combined by a nonlinear function (f_abs in
Eq. 7). The paper gives no formula for this function; the one used here is our own.
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
    """The sizes of a model that determine the shapes of a position's parameters."""

    width: int  # width of the vectors
    max_positions: int = 1024  # maximum input length of the model
    relations: int = 0  # vocabulary size of the relations, if a position reads them
    tags: int = 0  # vocabulary size of the parts of speech, if a position reads them


class Position(nn.Module):
    """Base class of all positions; class attributes declare the properties of a position.

    Example:

        @register
        class Mine(Position):
            name = "mine"
    """

    name: ClassVar[str]  # its name in specifications
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    paper: ClassVar[str] = ""  # the citation that `help` prints
    needs_tree: ClassVar[bool] = False  # whether it reads ctx.tree
    needs_labels: ClassVar[tuple[str, ...]] = ()  # labels that it reads: "relations", "tags"
    causal_safe: ClassVar[bool] = False  # usable in decoders: no output depends on later pieces

    def __init__(self, options: Any, shape: PositionShape):
        super().__init__()
        self.options = options  # an instance of Options
        self.shape = shape
        self.make_parameters()

    def make_parameters(self) -> None:
        """Create the parameters, according to self.options and self.shape."""

    @classmethod
    def check(cls, options: Any, shape: PositionShape) -> None:
        """Raise a ValueError if the position does not work in a model of this shape."""

    @property
    def changes_input(self) -> bool:
        """Return whether `change` transforms the sum of the embeddings and the positions."""
        return False

    def change(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new input of the first layer, of shape (B, Q, C).

        This method is called only if `changes_input` is True. x is the sum of the embeddings and
        the other positions.
        """
        raise NotImplementedError

    def forward(self, ctx: AttentionContext) -> Tensor:
        """Return the vectors to add to the embeddings, of shape (B, Q, C) or (1, Q, C).

        The queries are all pieces or, in incremental decoding, the last pieces. Use
        `ctx.positions`, which does not count padding, instead of column indices.
        """
        raise NotImplementedError


def sinusoid(values: Tensor, width: int) -> Tensor:
    """Return float32 sinusoidal embeddings of integers, of shape (..., width).

    The dimensions are ordered as in fairseq. fairseq's own table is not used, because its row 1 is
    the padding row and contains zeros, so depth 1 would get a zero vector.
    """
    half = width // 2
    steps = torch.arange(half, device=values.device, dtype=torch.float32)
    frequencies = torch.exp(steps * -(math.log(10000) / max(half - 1, 1)))
    angles = values.unsqueeze(-1).float() * frequencies
    return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, width % 2))


class Nonlinear(nn.Module):
    """Combines sequence and tree positions: tanh(W [seq ; tree] + b)."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(2 * width, width)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def forward(self, sequence: Tensor, tree: Tensor) -> Tensor:
        return torch.tanh(self.projection(torch.cat([sequence, tree], dim=-1)))
