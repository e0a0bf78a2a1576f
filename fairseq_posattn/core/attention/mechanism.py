"""A mechanism is a small module that takes part in those stages whose classes it inherits.

`pipeline.attend` calls the stages in their fixed order. The options of a mechanism are a dataclass,
from which the grammar of specifications takes names, types and defaults. Most stages are given
q: B H Q D, the queries of the heads that the mechanism acts on, after all transforms.
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

Heads = tuple[int, ...] | None  # numbers of attention heads; None: all heads


class Observer(Protocol):
    """This is told what each stage of a layer has made, in the order of the pipeline.

    The names of the tensors are those that `tell` is called with in pipeline.py and multihead.py.
    """

    def __call__(self, stage: str, mechanism: Mechanism | None, **tensors: Tensor) -> None:
        """Take the tensors of a stage: of one mechanism, or (None) of all that came before."""


@dataclass(frozen=True)
class NoOptions:
    """This dataclass stands in for the options of a mechanism that has none."""


@dataclass(frozen=True)
class AttentionShape:
    """These are the sizes of a model that a mechanism may need to build its parameters."""

    heads: int
    head_width: int
    max_positions: int = 1024  # the longest input that the model takes
    relations: int = 0  # how many names of relations there are, if a mechanism reads labels
    tags: int = 0  # how many parts of speech there are, if a mechanism reads labels
    brackets: bool = False  # whether it is that of a target whose brackets are known

    @property
    def width(self) -> int:
        return self.heads * self.head_width


@dataclass(frozen=True)
class Use:
    """This says how a specification uses a mechanism: options, layers and heads (None: all)."""

    mechanism: type[Mechanism]
    options: Any  # an instance of its Options
    layers: tuple[int, ...] | None
    heads: Heads

    def __str__(self) -> str:
        pairs = format_options(self.options)
        if self.heads != self.mechanism.usual_heads or self.heads is not None:
            pairs.append(f"heads={'all' if self.heads is None else format_numbers(self.heads)}")
        return format_term(self.mechanism.name, pairs, self.layers)


class Mechanism(nn.Module):
    """All mechanisms derive from this class and describe themselves by its class attributes.

    The first group says how it is used, the second what `fairseq_posattn.testing` may expect of it.
    """

    name: ClassVar[str]  # what a specification calls it
    Options: ClassVar[type[DataclassInstance]] = NoOptions
    paper: ClassVar[str] = ""  # the citation that `help` prints
    equation: ClassVar[str] = ""  # what posattn show writes above its pictures
    accepts_heads: ClassVar[bool] = False  # whether heads=0|3 may limit it to some heads
    needs_tree: ClassVar[bool] = False  # whether it reads ctx.tree
    learns_from_trees: ClassVar[bool] = False  # reads ctx.tree if it is there, as in training
    reads_brackets: ClassVar[bool] = False  # whether it reads ctx.brackets
    needs_labels: ClassVar[tuple[str, ...]] = ()  # of "relations", "tags": what of ctx.tree.labels
    causal_safe: ClassVar[bool] = False  # may stand in a decoder: the future changes nothing
    cross_safe: ClassVar[bool] = False  # may stand in cross-attention: see CrossContext
    CrossOptions: ClassVar[type[DataclassInstance] | None] = None  # Options there; None: the same
    usual_layers: ClassVar[tuple[int, ...] | None] = None  # where it acts without '@'; None: all
    usual_heads: ClassVar[Heads] = None  # on which it acts without 'heads='; None: all

    # True: it reads nothing of its batch but pairs of query and key, such as ctx.distances. So a
    # window beside it can be computed in bands.
    banded: ClassVar[bool] = False
    # False: it needs scores or weights in single steps, so torch's fused kernel is not used.
    fused: ClassVar[bool] = True
    # Options under which it is checked. They should make it act on sentences of ten pieces.
    examples: ClassVar[tuple[str, ...]] = ("",)
    # Options under which it is plain attention after set_neutral(); None: there are no such ones.
    neutral: ClassVar[str | None] = None
    # Parameters whose gradient is zero, since they shift all scores of a softmax alike.
    unseen: ClassVar[tuple[str, ...]] = ()

    shared: nn.Module  # what `for_all_layers` returned, if it returned something

    def __init__(self, options: Any, shape: AttentionShape, heads: Heads = None):
        super().__init__()
        self.options = options  # an instance of Options
        self.shape = shape
        self.heads = heads  # None: all of them
        self.head_count = shape.heads if heads is None else len(heads)
        self.watching = False  # whether to keep what `seen` has, at the cost of some sums
        self.seen: dict[str, Tensor] = {}  # what was predicted from the last batch
        self.make_parameters()

    def make_parameters(self) -> None:
        """Make what is learnt, by self.options, self.shape and self.heads."""

    @classmethod
    def check(cls, options: Any, shape: AttentionShape, others: Sequence[Use]) -> None:
        """Raise a ValueError that says why it cannot work in a model of this shape, or beside the
        other mechanisms of its layer."""

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Give all parameters the values under which plain attention is left: zeros by default."""
        for parameter in self.parameters():
            parameter.zero_()

    def for_all_layers(self) -> nn.Module | None:
        """Return a new module with the parameters that all layers have together; None: none.

        A model calls this in the first layer of a term of its specification, and stores the module
        once. Each layer of the term then finds it as `self.shared`, which a layer that stands
        alone owns.
        """
        return None

    def refer_to(self, shared: nn.Module) -> None:
        """Keep the module of all layers as `self.shared`, without owning it."""
        self.__dict__["shared"] = shared  # nn.Module would make it a part of this layer

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        """Return what posattn show draws besides the stages, each with its title, broadcastable to
        B H Q K. Whole numbers are written into the picture: the relation of two words, say.
        """
        return {}

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Return named numbers that say what was learnt, for TensorBoard and the report.

        Each is H, a number for each head that the mechanism acts on, or a single number for the
        layer. What is predicted from the input, such as the centre of a window, is the mean over
        the last batch; it is there if `watching` was set before.
        """
        return self.seen

    def watch(self, **predicted: Tensor) -> None:
        """Keep the mean over sentences and queries, and let `diagnostics` return it.

        Give each number as H, or without axes. Names have underscores where spaces are meant.
        """
        for name, number in predicted.items():
            self.seen[name.replace("_", " ")] = number.detach()

    def on_heads(self, x: Tensor) -> Tensor:
        """Return those heads of x (B H ...) that this mechanism acts on."""
        if self.heads is None:
            return x
        first, last = self.heads[0], self.heads[-1]
        if self.heads == tuple(range(first, last + 1)):
            return x[:, first : last + 1]
        return torch.stack([x[:, head] for head in self.heads], dim=1)


def at_least_float32(x: Tensor) -> Tensor:
    """Return x in float32 or better: half precision is too coarse for positions and exponents."""
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
