"""What a mechanism is: a small module that takes part in the stages it names.

A mechanism inherits from one or several of the stage classes below; `pipeline.attend` calls the
stages in their fixed order. Its options are a dataclass, from which the specification grammar
takes names, types and defaults. q is given to most stages: B H Q D, of the mechanism's heads only,
after the transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Heads = tuple[int, ...] | None  # of a model; None: all of them


@dataclass(frozen=True)
class NoOptions:
    """For a mechanism without options."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes that a mechanism may need to build its parameters."""

    heads: int
    head_width: int
    max_positions: int = 1024  # the longest input that the model takes

    @property
    def width(self) -> int:
        return self.heads * self.head_width


class Use(Protocol):
    """What a mechanism learns of another one in its layer."""

    @property
    def mechanism(self) -> type[Mechanism]: ...

    @property
    def options(self) -> Any: ...  # an instance of the mechanism's Options


class Mechanism(nn.Module):
    """Base of all mechanisms: its name in a specification, its options, the heads it acts on."""

    name: ClassVar[str]
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    accepts_heads: ClassVar[bool] = False
    needs_tree: ClassVar[bool] = False
    causal_safe: ClassVar[bool] = False  # may stand in a decoder: the future changes nothing
    usual_layers: ClassVar[tuple[int, ...] | None] = None  # without '@'; None: all
    usual_heads: ClassVar[Heads] = None  # without 'heads='; None: all

    def __init__(self, options: Any, shape: AttentionShape, heads: Heads = None):
        super().__init__()
        self.options = options  # an instance of Options
        self.shape = shape
        self.heads = heads  # None: all of them
        self.head_count = shape.heads if heads is None else len(heads)

    @classmethod
    def check(cls, options: Any, shape: AttentionShape, others: Sequence[Use]) -> None:
        """Raise a ValueError that says why it cannot work: beside these others of its layer (each
        with `mechanism` and `options`), or in a model of this shape."""

    def on_heads(self, x: Tensor) -> Tensor:
        """The heads of x (B H ...) that this mechanism acts on."""
        return x if self.heads is None else x[:, list(self.heads)]


def at_least_float32(x: Tensor) -> Tensor:
    """In float32 at least, for what half precision is too coarse for: positions, exponents."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class PreAttention(Mechanism):
    """Stands before the attention of its layer."""

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """x: T B C -> T B C, any residual connection included."""
        raise NotImplementedError


class QKVTransform(Mechanism):
    """Changes queries, keys and values."""

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        """B H Q D of the mechanism's heads, each -> the same."""
        raise NotImplementedError


class KeyExpansion(Mechanism):
    """Gives a head more keys and values: further copies of each position, in the same softmax."""

    copies: int = 1

    def expand(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """B H K D each -> keys and values B H copies·K D, copy by copy, and which of them
        exist: bool 1 H 1 copies·K."""
        raise NotImplementedError


class ScoreBias(Mechanism):
    """Adds to the scaled scores."""

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """-> broadcastable to B H Q K."""
        raise NotImplementedError


class ScoreChange(Mechanism):
    """Changes the scaled scores."""

    def change_scores(self, scores: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """scores: B H Q K of the mechanism's heads -> the same."""
        raise NotImplementedError


class ScoreMask(Mechanism):
    """Limits which keys a query may attend to."""

    local: ClassVar[bool] = False  # keys near some position only
    keeps_self: bool = True  # a piece may always attend to itself

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """-> bool, True = may attend, broadcastable to B H Q K."""
        raise NotImplementedError


class WeightChange(Mechanism):
    """Changes the weights after the softmax; what the masks forbid is set to zero again."""

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """weights: B H Q K of the mechanism's heads -> the same."""
        raise NotImplementedError


class ValueTerm(Mechanism):
    """Adds to the output, from the weights that the values get."""

    def value_term(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        """weights: B H Q K of the mechanism's heads -> B H Q D."""
        raise NotImplementedError


class PostAttention(Mechanism):
    """Puts something else in the place of the attention's output."""

    def replace(self, x: Tensor, out: Tensor, ctx: AttentionContext) -> Tensor:
        """x: T B C, the attention's input; out: T B C, its output under the masks -> T B C."""
        raise NotImplementedError


class FastPath(Mechanism):
    """Knows a faster way from queries to output, where nothing else acts on the scores."""

    def fast_path(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext, dropout: float
    ) -> Tensor | None:
        """B H Q D each -> B H Q D, or None where the usual way is to be taken."""
        raise NotImplementedError
