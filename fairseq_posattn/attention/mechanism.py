"""What a mechanism is: a small module that takes part in the stages it names.

A mechanism inherits from one or several of the stage classes below; `pipeline.attend` calls the
stages in their fixed order. Its options are a dataclass, from which the specification grammar
takes names, types and defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from fairseq_posattn.attention.context import AttentionContext


@dataclass(frozen=True)
class NoOptions:
    """For a mechanism without options."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes that a mechanism may need to build its parameters."""

    heads: int
    head_width: int


class Mechanism(nn.Module):
    """Base of all mechanisms: its name in a specification, its options, the heads it acts on."""

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    accepts_heads: ClassVar[bool] = False
    needs_tree: ClassVar[bool] = False

    def __init__(self, options, shape: AttentionShape, heads: tuple[int, ...] | None = None):
        super().__init__()
        self.options = options
        self.shape = shape
        self.heads = heads  # None: all of them

    def on_heads(self, x: Tensor) -> Tensor:
        """The heads of x (B H ...) that this mechanism acts on."""
        return x if self.heads is None else x[:, list(self.heads)]


class ScoreBias(Mechanism):
    """Adds to the scaled scores."""

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """q: B H Q D of the mechanism's heads -> broadcastable to B H Q K."""
        raise NotImplementedError


class ValueTerm(Mechanism):
    """Adds to the output, from the weights that the values get."""

    def value_term(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        """weights: B H Q K of the mechanism's heads -> B H Q D."""
        raise NotImplementedError
