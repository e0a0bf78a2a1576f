"""Base classes of attention mechanisms, one for each stage in which a mechanism can act.

A mechanism is a module that inherits the classes of its stages; `pipeline.attend` calls the stages
in a fixed order. Its options are a dataclass, which defines their names, types and defaults in
specifications. Most stages receive q: B H Q D, the queries of the mechanism's heads after all
transforms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.specification import format_numbers, format_options, format_term

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Heads = tuple[int, ...] | None  # indices of attention heads; None: all heads


class Observer(Protocol):
    """A callback that receives the result of each stage of a layer, in the order of the pipeline.

    The calls of `tell` in pipeline.py and multihead.py define the names of the tensors.
    """

    def __call__(self, stage: str, mechanism: Mechanism | None, **tensors: Tensor) -> None:
        """Receive the tensors of a stage, of one mechanism or, with None, of the layer."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a mechanism without any."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of a model that determine the shapes of a mechanism's parameters.

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
    """A mechanism in a specification with its options, layers and heads (None: all)."""

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

    The first group of attributes defines its use, the second what `fairseq_posattn.testing` checks.
    """

    name: ClassVar[str]  # its name in specifications
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    paper: ClassVar[str] = ""  # the citation that `help` prints
    equation: ClassVar[str] = ""  # printed above the pictures of posattn show
    accepts_heads: ClassVar[bool] = False  # whether heads=0|3 can restrict it to some heads
    needs_tree: ClassVar[bool] = False  # whether it reads ctx.tree
    learns_from_trees: ClassVar[bool] = False  # whether it reads ctx.tree in training only
    reads_brackets: ClassVar[bool] = False  # whether it reads ctx.brackets
    needs_labels: ClassVar[tuple[str, ...]] = ()  # which ctx.tree.labels: "relations", "tags"
    causal_safe: ClassVar[bool] = False  # usable in decoders: no output depends on later pieces
    cross_safe: ClassVar[bool] = False  # usable in cross-attention, see CrossContext
    CrossOptions: ClassVar[type[DataclassInstance] | None] = None  # Options there; None: the same
    usual_layers: ClassVar[tuple[int, ...] | None] = None  # default layers without '@'; None: all
    usual_heads: ClassVar[Heads] = None  # default heads without 'heads='; None: all

    # Whether it depends only on pairs of query and key, such as ctx.distances, so that together
    # with a window it can be computed in bands.
    banded: ClassVar[bool] = False
    # Whether torch's fused kernel can be used; False: it needs the scores or weights themselves.
    fused: ClassVar[bool] = True
    # Options with which it is tested. They should have an effect on sentences of ten pieces.
    examples: ClassVar[tuple[str, ...]] = ("",)
    # Options with which it equals plain attention after set_neutral(); None: there are none.
    neutral: ClassVar[str | None] = None
    # Parameters with zero gradients, because they add the same to all scores of a softmax.
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
        """Raise a ValueError if it does not work in a model of this shape, or together with the
        other mechanisms of its layer."""

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Set the parameters so that it has no effect; by default to zeros."""
        for parameter in self.parameters():
            parameter.zero_()

    def for_all_layers(self) -> nn.Module | None:
        """Return a new module with the parameters that all layers share, or None.

        It is called once per term of a specification. The model owns the module, and each layer of
        the term refers to it as `self.shared`; a layer that is built alone owns it itself.
        """
        return None

    def refer_to(self, shared: nn.Module) -> None:
        """Set `self.shared` without registering it as a submodule."""
        self.__dict__["shared"] = shared  # bypasses the registration in nn.Module.__setattr__

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        """Return further matrices for posattn show by title, broadcastable to B H Q K.

        Integers, for example relations of words, are printed in the cells of the picture.
        """
        return {}

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Return learnt or predicted values by name, for TensorBoard and the report.

        Each has one value per head of the mechanism, H, or a single one for the layer. Values that
        are predicted from the input, such as the centre of a window, are means over the last batch,
        and are available only if `watching` was set.
        """
        return self.seen

    def watch(self, **predicted: Tensor) -> None:
        """Store means over sentences and queries, H or a scalar, which `diagnostics` returns.

        Underscores in the names become spaces.
        """
        for name, number in predicted.items():
            self.seen[name.replace("_", " ")] = number.detach()

    def on_heads(self, x: Tensor) -> Tensor:
        """Return the heads of x, B H ..., on which this mechanism acts."""
        if self.heads is None:
            return x
        first, last = self.heads[0], self.heads[-1]
        if self.heads == tuple(range(first, last + 1)):
            return x[:, first : last + 1]
        return torch.stack([x[:, head] for head in self.heads], dim=1)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32; it is too coarse for positions and exponents."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class PreAttention(Mechanism):
    """A mechanism that changes the input of its layer before the attention."""

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new input of the layer, T B C, with any residual connection added to it."""
        raise NotImplementedError


class QKVTransform(Mechanism):
    """A mechanism that changes queries, keys and values."""

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return new queries, keys and values, with the shapes of those given."""
        raise NotImplementedError

    def transform_queries(self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext) -> Tensor:
        """Return new queries only. In incremental decoding, cross-attention calls this method,
        because its keys and values were transformed in the first step. Override it to save time."""
        return self.transform(q, k, v, ctx)[0]


class KeyExpansion(Mechanism):
    """A mechanism that gives each head `copies` keys and values per piece, in one softmax."""

    copies: int = 1

    def expand(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys and values, B H copies·K D, one copy after the other, and a bool mask of
        those that exist, 1 H 1 copies·K."""
        raise NotImplementedError


class ScoreBias(Mechanism):
    """A mechanism that adds a bias to the scaled scores."""

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, broadcastable to B H Q K."""
        raise NotImplementedError


class KeyBias(Mechanism):
    """A mechanism that adds a bias that also depends on the keys to the scaled scores."""

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, broadcastable to B H Q K. k are the keys after all transforms."""
        raise NotImplementedError


class ScoreChange(Mechanism):
    """A mechanism that changes the scaled scores."""

    fused = False

    def change_scores(self, scores: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new scores. Old and new scores are B H Q K."""
        raise NotImplementedError


class ScoreMask(Mechanism):
    """A mechanism that limits which keys a query may attend to."""

    local: ClassVar[bool] = False  # whether it allows only keys near some position
    keeps_self: bool = True  # whether a piece may always attend to itself

    @classmethod
    def forbids(cls, options: Any) -> bool:
        """Return whether the mechanism masks any key with these options."""
        return True

    def reach(self, ctx: AttentionContext) -> int | None:
        """Return the largest distance between a query and an allowed key, so that scores can be
        computed in bands. None: the distance is unlimited, or bands are slower for this batch.
        """
        return None

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return a bool mask, broadcastable to B H Q K: True = the query may attend to the key."""
        raise NotImplementedError


class WeightChange(Mechanism):
    """A mechanism that changes the weights after the softmax; masked ones are reset to zero."""

    fused = False

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new weights. Old and new weights are B H Q K."""
        raise NotImplementedError


class ValueTerm(Mechanism):
    """A mechanism that adds a term to the output of a head, computed from the weights."""

    fused = False

    def value_term(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the term, B H Q D; the weights are B H Q K."""
        raise NotImplementedError


class PostAttention(Mechanism):
    """A mechanism that replaces the output of the attention."""

    def replace(self, x: Tensor, out: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new output, T B C, from the attention's input x and its output out, T B C."""
        raise NotImplementedError


class FastPath(Mechanism):
    """A mechanism that knows a faster way to the output where nothing else acts on the scores."""

    def fast_path(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext, dropout: float
    ) -> Tensor | None:
        """Return the output, B H Q D, from q, k and v, B H Q D; or None to take the usual way."""
        raise NotImplementedError
