"""A specification says which mechanisms a model has, and builds them for each of its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import nn

from fairseq_posattn.core.attention.mechanism import AttentionShape, Mechanism, ScoreMask, Use
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.registry import (
    MECHANISMS,
    reason_against,
    reason_against_crossing,
    safe_across,
    safe_in_decoders,
)
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.core.specification import (
    SpecificationError,
    Term,
    format_numbers,
    format_term,
    make_options,
    parse,
    parse_numbers,
    refuse_in_decoders,
    registered,
)
from fairseq_posattn.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class AttentionSpecification:
    """A specification says which mechanisms act in which layer. str() gives its canonical form."""

    cross: ClassVar[bool] = False  # whether it is one of cross-attention

    def __init__(self, text: str = ""):
        self.uses = [use_of(term, self.cross) for term in parse(text)]

    def __str__(self) -> str:
        return " + ".join(map(str, self.uses))

    @property
    def needs_tree(self) -> bool:
        return any(use.mechanism.needs_tree for use in self.uses)

    @property
    def learns_from_trees(self) -> bool:
        """Tell whether some mechanism reads trees in training, and can do without them later."""
        return any(use.mechanism.learns_from_trees for use in self.uses)

    @property
    def reads_brackets(self) -> bool:
        return any(use.mechanism.reads_brackets for use in self.uses)

    @property
    def needs_labels(self) -> set[str]:
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

    def in_layer(self, layer: int) -> list[Use]:
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


def built(use: Use, shape: AttentionShape, shared: dict[str, nn.Module] | None) -> Mechanism:
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


def use_of(term: Term, cross: bool = False) -> Use:
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
    return Use(mechanism, read, layers, heads)


def options_of(mechanism: type[Mechanism], cross: bool) -> type[DataclassInstance]:
    return (mechanism.CrossOptions if cross else None) or mechanism.Options


def existing(heads: tuple[int, ...] | None, shape: AttentionShape) -> tuple[int, ...] | None:
    """Return those heads that the model has: a mechanism's usual heads may be more."""
    return heads and tuple(head for head in heads if head < shape.heads)


def check_layer(layer: int, uses: list[Use], shape: AttentionShape) -> None:
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


def refuse_masks(use: Use, others: list[Use], shape: AttentionShape) -> None:
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


def heads_in(use: Use, shape: AttentionShape) -> tuple[int, ...]:
    heads = existing(use.heads, shape)
    return tuple(range(shape.heads)) if heads is None else heads


def check_range(what: str, numbers: tuple[int, ...] | None, count: int, unit: str) -> None:
    """Refuse numbers of layers or heads that a model with `count` of them lacks."""
    if numbers is not None and max(numbers) >= count:
        has = f"{count} {unit}s, 0 to {count - 1}" if count > 1 else f"one {unit}, 0"
        raise SpecificationError(f"{what}{format_numbers(numbers)}: the model has {has}")


def build_self_attention(
    specification: str,
    width: int,
    heads: int,
    *,
    layer: int = 0,
    layers: int = 1,
    max_positions: int = 1024,
    dropout: float = 0.0,
    relations: int = 0,
) -> MultiheadSelfAttention:
    """Return the self-attention of one layer of a model, with the mechanisms of a specification.

    `layer` counts from 0 and matters for mechanisms that act in some layers only (`@0-2`).
    `relations` is the number of labels of relations, where a mechanism reads them. Raise an
    InputError, which says what would be right, if the numbers or the specification cannot work.
    """
    if heads < 1:
        raise InputError(f"heads={heads}: give at least one attention head")
    if not 0 <= layer < layers:
        raise InputError(f"layer={layer}: with layers={layers} there are 0 to {layers - 1}")
    read = AttentionSpecification(specification)
    shape = AttentionShape(heads, width // heads, max_positions, relations)
    read.check(layers, shape)
    if read.needs_labels and relations <= UNKNOWN_LABEL:
        raise InputError(
            f"'{read}' reads the relations of words; say with relations=... how many numbers they "
            f"have, of which the first {UNKNOWN_LABEL} are not those of words"
        )
    rate = nn.Dropout(dropout) if dropout else None
    return MultiheadSelfAttention(width, heads, read.build(layer, shape), rate)
