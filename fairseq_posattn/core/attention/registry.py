"""The registry knows all mechanisms by name and makes modules from a specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from torch import nn

from fairseq_posattn.core.attention.alibi import Alibi
from fairseq_posattn.core.attention.block import Block
from fairseq_posattn.core.attention.cnn import Cnn
from fairseq_posattn.core.attention.convolved import Convolved1d, Convolved2d
from fairseq_posattn.core.attention.deps_san import DepsSan
from fairseq_posattn.core.attention.description import description
from fairseq_posattn.core.attention.direct import DirectAbsolute, DirectRelative
from fairseq_posattn.core.attention.directional import Directional
from fairseq_posattn.core.attention.disentangled import Disentangled
from fairseq_posattn.core.attention.gaussian import Gaussian
from fairseq_posattn.core.attention.local import LocalHard, LocalSoft
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    Heads,
    Mechanism,
    PostAttention,
    PreAttention,
    ScoreMask,
)
from fairseq_posattn.core.attention.parent_scaled import ParentScaled
from fairseq_posattn.core.attention.relative import Relative, TreeDepthRelative, TreeRelative
from fairseq_posattn.core.attention.rope import Rope
from fairseq_posattn.core.attention.t5_bias import T5Bias
from fairseq_posattn.core.attention.temperature import Temperature
from fairseq_posattn.core.attention.tree_depth_bias import TreeDepthBias
from fairseq_posattn.core.attention.tree_distance import TreeDistance
from fairseq_posattn.core.attention.tree_gcn import TreeGcn
from fairseq_posattn.core.attention.tree_labels import TreeLabels
from fairseq_posattn.core.attention.tree_supervised import TreeSupervised
from fairseq_posattn.core.attention.tree_window import TreeWindow
from fairseq_posattn.core.attention.window import Window
from fairseq_posattn.core.registration import TAKEN_BY_TORCH, add, check_texts
from fairseq_posattn.core.specification import (
    SpecificationError,
    Term,
    format_numbers,
    format_options,
    format_term,
    make_options,
    parse,
    parse_numbers,
    reason_against_decoders,
    refuse_in_decoders,
    registered,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MECHANISMS: dict[str, type[Mechanism]] = {}
MechanismClass = TypeVar("MechanismClass", bound=Mechanism)


def register(mechanism: type[MechanismClass]) -> type[MechanismClass]:
    """Add a mechanism to the table; also for files outside the package, as a class decorator.

    Raise a RegistrationError, which names the class and its line, if the class cannot work.
    """
    add(MECHANISMS, mechanism, Mechanism, "mechanism", TAKEN_BY_TORCH, check_texts)
    return mechanism


for _mechanism in (
    *(Relative, TreeRelative, Window, Directional, Gaussian, LocalHard, LocalSoft, Block, Cnn),
    *(DirectAbsolute, DirectRelative, Temperature, Convolved1d, Convolved2d, ParentScaled),
    *(Alibi, T5Bias, Rope, Disentangled, TreeWindow, TreeDistance, TreeDepthRelative, DepsSan),
    *(TreeLabels, TreeGcn, TreeSupervised, TreeDepthBias),
):
    register(_mechanism)


@dataclass(frozen=True)
class MechanismUse:
    """This says how a specification uses a mechanism: options, layers and heads (None: all)."""

    mechanism: type[Mechanism]
    options: DataclassInstance
    layers: tuple[int, ...] | None
    heads: Heads

    def __str__(self) -> str:
        pairs = format_options(self.options)
        if self.heads != self.mechanism.usual_heads or self.heads is not None:
            pairs.append(f"heads={'all' if self.heads is None else format_numbers(self.heads)}")
        return format_term(self.mechanism.name, pairs, self.layers)


class AttentionSpecification:
    """A specification says which mechanisms act in which layer. str() gives its canonical form."""

    cross: ClassVar[bool] = False  # whether it is one of cross-attention

    def __init__(self, text: str = ""):
        self.uses = [use_of(term, self.cross) for term in parse(text)]

    def __str__(self) -> str:
        return " + ".join(map(str, self.uses))

    @property
    def needs_tree(self) -> bool:
        """Tell whether some mechanism reads the trees of the sentences."""
        return any(use.mechanism.needs_tree for use in self.uses)

    @property
    def learns_from_trees(self) -> bool:
        """Tell whether some mechanism reads trees in training, and can do without them later."""
        return any(use.mechanism.learns_from_trees for use in self.uses)

    @property
    def needs_labels(self) -> set[str]:
        """Return the kinds of labels of words that some mechanism reads."""
        return {kind for use in self.uses for kind in use.mechanism.needs_labels}

    def check(self, layers: int, shape: AttentionShape) -> None:
        """Refuse what cannot work in a model of this many layers and this shape.

        That is a layer or a head that does not exist, a mechanism twice in one layer, and what a
        mechanism refuses by itself.
        """
        for use in self.uses:
            name = use.mechanism.name
            check_range(f"{name}@", use.layers, layers, "layer")
            if use.heads != use.mechanism.usual_heads:
                check_range(f"{name}(heads=...), ", use.heads, shape.heads, "attention head")
        for layer in range(layers):
            check_layer(layer, self.in_layer(layer), shape)

    def check_causal(self) -> None:
        """Refuse mechanisms that cannot stand in a decoder."""
        chosen = [use.mechanism for use in self.uses]
        safe = sorted(safe_in_decoders())
        refuse_in_decoders(chosen, reason_against, "--decoder-attention", safe)

    def in_layer(self, layer: int) -> list[MechanismUse]:
        """Return the mechanisms that act in a layer, in the order listed."""
        return [use for use in self.uses if use.layers is None or layer in use.layers]

    def build(
        self, layer: int, shape: AttentionShape, shared: dict[str, nn.Module] | None = None
    ) -> list[Mechanism]:
        """Return new modules of the mechanisms that act in a layer.

        shared: what all layers have together, by its term; a model that builds several layers gives
            all of them the same dictionary, to which this adds, and owns what is in it at the end.
            Without it the layer stands alone, and owns what it needs.
        """
        return [built(use, shape, shared) for use in self.in_layer(layer)]


class CrossSpecification(AttentionSpecification):
    """A specification of cross-attention, where mechanisms may have other options."""

    cross = True

    def __init__(self, text: str = ""):
        super().__init__(text)
        chosen = [use.mechanism for use in self.uses]
        refuse_in_decoders(chosen, reason_against_crossing, "--cross-attention", safe_across())


def built(
    use: MechanismUse, shape: AttentionShape, shared: dict[str, nn.Module] | None
) -> Mechanism:
    """Return a new module of a mechanism, with what it shares with the other layers of its term."""
    mechanism = use.mechanism(use.options, shape, existing(use.heads, shape))
    known = {} if shared is None else shared
    key = format_term(use.mechanism.name, [], use.layers)
    if key not in known and (module := mechanism.for_all_layers()) is not None:
        known[key] = module
    if shared is None and known:
        mechanism.shared = known[key]
    elif key in known:
        mechanism.refer_to(known[key])
    return mechanism


def use_of(term: Term, cross: bool = False) -> MechanismUse:
    """Return the mechanism that a term names, with its options, layers and heads read."""
    mechanism = registered(term.name, MECHANISMS, "attention mechanism")
    options = dict(term.options)
    written = options.pop("heads", None)
    if written is not None and not mechanism.accepts_heads:
        raise SpecificationError(f"'{term.name}' cannot be limited to some heads")
    read = make_options(Term(term.name, options), options_of(mechanism, cross))
    heads = mechanism.usual_heads
    if written:
        heads = None if written == "all" else parse_numbers(written)
    layers = mechanism.usual_layers if term.layers is None else term.layers
    return MechanismUse(mechanism, read, layers, heads)


def options_of(mechanism: type[Mechanism], cross: bool) -> type[DataclassInstance]:
    return (mechanism.CrossOptions if cross else None) or mechanism.Options


def existing(heads: tuple[int, ...] | None, shape: AttentionShape) -> tuple[int, ...] | None:
    """Return those heads that the model has: a mechanism's usual heads may be more."""
    return heads and tuple(head for head in heads if head < shape.heads)


def check_layer(layer: int, uses: list[MechanismUse], shape: AttentionShape) -> None:
    """Refuse a mechanism twice in a layer, and what a mechanism refuses beside the others."""
    names = [use.mechanism.name for use in uses]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SpecificationError(f"'{twice.pop()}' stands twice in layer {layer}")
    for use in uses:
        others = [other for other in uses if other != use]
        try:
            use.mechanism.check(use.options, shape, others)
            if use.mechanism.learns_from_trees:
                refuse_masks(use, others, shape)
        except ValueError as error:
            raise SpecificationError(f"{use}, in layer {layer}: {error}") from None


def refuse_masks(use: MechanismUse, others: list[MechanismUse], shape: AttentionShape) -> None:
    """Refuse masks on heads that learn from trees: a mask may keep them from what they learn."""
    for other in others:
        mask = other.mechanism
        if not issubclass(mask, ScoreMask) or not mask.forbids(other.options):
            continue
        both = set(heads_in(use, shape)) & set(heads_in(other, shape))
        if both:
            raise ValueError(
                f"'{mask.name}' keeps head {min(both)} from words that "
                f"'{use.mechanism.name}' teaches it to look at; give them other heads with "
                "heads=..."
            )


def heads_in(use: MechanismUse, shape: AttentionShape) -> tuple[int, ...]:
    heads = existing(use.heads, shape)
    return tuple(range(shape.heads)) if heads is None else heads


def check_range(what: str, numbers: tuple[int, ...] | None, count: int, unit: str) -> None:
    """Refuse numbers of layers or heads that a model with `count` of them lacks."""
    if numbers is not None and max(numbers) >= count:
        has = f"{count} {unit}s, 0 to {count - 1}" if count > 1 else f"one {unit}, 0"
        raise SpecificationError(f"{what}{format_numbers(numbers)}: the model has {has}")


def reason_against(mechanism: type[Mechanism]) -> str | None:
    if issubclass(mechanism, (PreAttention, PostAttention)):
        return "acts before or after the attention, which it does in encoders only"
    return reason_against_decoders(mechanism)


def safe_in_decoders() -> dict[str, type[Mechanism]]:
    return {name: m for name, m in MECHANISMS.items() if reason_against(m) is None}


def reason_against_crossing(mechanism: type[Mechanism]) -> str | None:
    """Return why a mechanism cannot stand in cross-attention; None: it can."""
    if issubclass(mechanism, (PreAttention, PostAttention)):
        return "acts before or after the attention, which it does in encoders only"
    if not mechanism.cross_safe:
        return "is made for pieces of one sentence, and queries and keys are of two"
    if mechanism.needs_labels:
        return "reads labels of words, which a decoder does not get"
    return None


def safe_across() -> dict[str, type[Mechanism]]:
    """Return the mechanisms that can stand in cross-attention, by name."""
    return {n: m for n, m in sorted(MECHANISMS.items()) if reason_against_crossing(m) is None}


def describe(side: str = "encoder") -> str:
    """Return what '--encoder-attention help' prints about the mechanisms of a side.

    side: encoder, decoder or cross.
    """
    tables = {"decoder": safe_in_decoders, "cross": safe_across}
    return description(tables[side]() if side in tables else MECHANISMS, side)
