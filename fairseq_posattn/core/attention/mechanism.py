"""The base class of attention mechanisms.

A mechanism is a module that inherits from one or more stage classes, which are defined in
stages.py. Its attribute `Options` is a dataclass with the names, types and defaults of its options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.specification import format_numbers, format_options, format_term

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Heads = tuple[int, ...] | None  # indices of attention heads; None: all heads


@dataclass(frozen=True)
class NoOptions:
    """The empty `Options` of mechanisms without options."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of a model that determine the shapes of a mechanism's parameters.

    Example:

        shape = AttentionShape(heads=8, head_width=64)
    """

    heads: int
    head_width: int
    max_positions: int = 1024  # maximum input length of the model
    relations: int = 0  # vocabulary size of the relations, if a mechanism reads them
    tags: int = 0  # vocabulary size of the parts of speech, if a mechanism reads them
    brackets: bool = False  # whether the context provides the open brackets of a target

    @property
    def width(self) -> int:
        return self.heads * self.head_width


@dataclass(frozen=True)
class Use:
    """A mechanism in a specification, with its options, layers and heads (None for all)."""

    mechanism: type[Mechanism]
    options: Any  # an instance of the mechanism's Options
    layers: tuple[int, ...] | None
    heads: Heads

    def __str__(self) -> str:
        pairs = format_options(self.options)
        if self.heads != self.mechanism.usual_heads or self.heads is not None:
            pairs.append(f"heads={'all' if self.heads is None else format_numbers(self.heads)}")
        return format_term(self.mechanism.name, pairs, self.layers)


class Mechanism(nn.Module):
    """Base class of all mechanisms; class attributes declare the properties of a mechanism.

    The first group of attributes defines its use, the second its computation and the checks of
    `fairseq_posattn.testing`.
    """

    name: ClassVar[str]  # its name in specifications
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    paper: ClassVar[str] = ""  # the citation that `help` prints
    equation: ClassVar[str] = ""  # printed above the pictures of posattn show
    accepts_heads: ClassVar[bool] = False  # whether heads=0|3 can restrict it to some heads
    needs_tree: ClassVar[bool] = False  # whether it reads ctx.tree
    learns_from_trees: ClassVar[bool] = False  # whether it reads ctx.tree in training only
    reads_brackets: ClassVar[bool] = False  # whether it reads ctx.brackets
    needs_labels: ClassVar[tuple[str, ...]] = ()  # labels that it reads: "relations", "tags"
    causal_safe: ClassVar[bool] = False  # usable in decoders: no output depends on later pieces
    cross_safe: ClassVar[bool] = False  # usable in cross-attention, see CrossContext
    # The options in cross-attention; None: the same as in `Options`.
    CrossOptions: ClassVar[type[DataclassInstance] | None] = None
    usual_layers: ClassVar[tuple[int, ...] | None] = None  # default layers without '@'; None: all
    usual_heads: ClassVar[Heads] = None  # default heads without 'heads='; None: all

    # Whether it depends only on pairs of query and key, such as ctx.distances, so that together
    # with a window it can be computed in bands.
    banded: ClassVar[bool] = False
    # Whether torch's fused kernel can be used; False: it needs the scores or weights themselves.
    fused: ClassVar[bool] = True
    # Options for testing the mechanism; they should have an effect on sentences of ten pieces.
    examples: ClassVar[tuple[str, ...]] = ("",)
    # Options with which it equals plain attention after set_neutral(); None: there are none.
    neutral: ClassVar[str | None] = None
    # Parameters with zero gradients, because they add a constant to all scores of a softmax.
    unseen: ClassVar[tuple[str, ...]] = ()

    shared: nn.Module  # the result of `for_all_layers`, unless that is None

    def __init__(self, options: Any, shape: AttentionShape, heads: Heads = None):
        super().__init__()
        self.options = options  # an instance of Options
        self.shape = shape
        self.heads = heads  # None: all of them
        self.head_count = shape.heads if heads is None else len(heads)
        self.watching = False  # whether `watch` is called to fill `seen`
        self.seen: dict[str, Tensor] = {}  # means of values predicted from the last batch
        self.make_parameters()

    def make_parameters(self) -> None:
        """Create the parameters, according to self.options, self.shape and self.heads."""

    @classmethod
    def check(cls, options: Any, shape: AttentionShape, others: Sequence[Use]) -> None:
        """Raise a ValueError if the mechanism does not work in a model of this shape.

        Also raise a ValueError if it cannot be combined with the other mechanisms of its layer.
        """

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Set the parameters so that the mechanism has no effect; the default sets them to zero."""
        for parameter in self.parameters():
            parameter.zero_()

    def for_all_layers(self) -> nn.Module | None:
        """Return a new module with the parameters that all layers share, or None.

        The module is created once per term of a specification. The model owns it, and the mechanism
        in each layer of the term refers to it as `self.shared`. In a layer that is built without a
        model, the mechanism itself owns the module.
        """
        return None

    def refer_to(self, shared: nn.Module) -> None:
        """Set `self.shared` without registering it as a submodule."""
        self.__dict__["shared"] = shared  # bypasses the registration in nn.Module.__setattr__

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        """Return additional matrices for posattn show.

        The keys are titles, and the matrices are broadcastable to (B, H, Q, K). Integers, for
        example relations between words, are printed in the cells of the picture.
        """
        return {}

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Return learnt or predicted values by name, for TensorBoard and the report.

        Each tensor contains one value per head of the mechanism, or a single value for the layer.
        Values that are predicted from the input, such as the centre of a window, are averaged over
        the last batch. These means are available only if `watching` was set.
        """
        return self.seen

    def watch(self, **predicted: Tensor) -> None:
        """Store means over sentences and queries, which `diagnostics` then returns.

        Each mean has one value per head or is a scalar. Underscores in the names are replaced with
        spaces.
        """
        for name, number in predicted.items():
            self.seen[name.replace("_", " ")] = number.detach()

    def on_heads(self, x: Tensor) -> Tensor:
        """Select the heads of x, of shape (B, H, ...), on which this mechanism acts."""
        if self.heads is None:
            return x
        first, last = self.heads[0], self.heads[-1]
        if self.heads == tuple(range(first, last + 1)):
            return x[:, first : last + 1]
        return torch.stack([x[:, head] for head in self.heads], dim=1)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision, which is too inaccurate for positions and exponents, to float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
