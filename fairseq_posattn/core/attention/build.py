"""Parse a specification of attention mechanisms, and build the mechanisms of each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import nn

from fairseq_posattn.core.attention.mechanism import AttentionShape, Mechanism, Use
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.registry import (
    MECHANISMS,
    reason_against,
    reason_against_crossing,
    safe_across,
    safe_in_decoders,
)
from fairseq_posattn.core.attention.stages import ScoreMask
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
    """The mechanisms of a model with their layers and heads; str() returns the canonical form.

    Example:

        spec = AttentionSpecification("window(size=5)@0-2 + relative")
        spec.check(6, shape)
        mechanisms = spec.build(0, shape)
    """

    cross: ClassVar[bool] = False  # whether it specifies cross-attention

    def __init__(self, text: str = ""):
        self.uses = [use_of(term, self.cross) for term in parse(text)]

    def __str__(self) -> str:
        return " + ".join(map(str, self.uses))

    @property
    def needs_tree(self) -> bool:
        return any(use.mechanism.needs_tree for use in self.uses)

    @property
    def learns_from_trees(self) -> bool:
        """Return whether any mechanism needs trees during training only."""
        return any(use.mechanism.learns_from_trees for use in self.uses)

    @property
    def reads_brackets(self) -> bool:
        return any(use.mechanism.reads_brackets for use in self.uses)

    @property
    def needs_labels(self) -> set[str]:
        return {kind for use in self.uses for kind in use.mechanism.needs_labels}

    def check(self, layers: int, shape: AttentionShape) -> None:
        """Raise a SpecificationError if a model of this shape cannot use the mechanisms.

        This is the case if a layer or head does not exist, if a mechanism occurs twice in a layer,
        or if the `check` of a mechanism fails.
        """
        for use in self.uses:
            name = use.mechanism.name
            check_range(f"{name}@{{}}", use.layers, layers, "layer")
            if use.heads != use.mechanism.usual_heads:
                check_range(f"{name}(heads={{}})", use.heads, shape.heads, "attention head")
        for layer in range(layers):
            check_layer(layer, self.in_layer(layer), shape)

    def check_causal(self) -> None:
        """Raise a SpecificationError if a mechanism cannot be used in a decoder."""
        chosen = [use.mechanism for use in self.uses]
        safe = sorted(safe_in_decoders())
        refuse_in_decoders(chosen, reason_against, "--decoder-attention", safe)

    def in_layer(self, layer: int) -> list[Use]:
        """Return the mechanisms of a layer in the order of the specification."""
        return [use for use in self.uses if use.layers is None or layer in use.layers]

    def build(
        self, layer: int, shape: AttentionShape, shared: dict[str, nn.Module] | None = None
    ) -> list[Mechanism]:
        """Return new modules for the mechanisms of a layer.

        shared: dictionary from terms to the modules that their layers share, to which this method
            adds missing modules. Pass the same dictionary for all layers, and register its modules
            in the model. If it is None, the layer owns the modules.
        """
        return [built(use, shape, shared) for use in self.in_layer(layer)]


class CrossSpecification(AttentionSpecification):
    """A specification of cross-attention. Mechanisms that define `CrossOptions` take these options.

    Example:

        spec = CrossSpecification("window(size=5, ratio=1.2)@0-2")
    """

    cross = True

    def __init__(self, text: str = ""):
        super().__init__(text)
        chosen = [use.mechanism for use in self.uses]
        refuse_in_decoders(chosen, reason_against_crossing, "--cross-attention", safe_across())


def built(use: Use, shape: AttentionShape, shared: dict[str, nn.Module] | None) -> Mechanism:
    """Return a new module for a mechanism, connected to the parameters that its layers share."""
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
    """Return the mechanism of a term, with its parsed options, layers and heads."""
    mechanism = registered(term.name, MECHANISMS, "attention mechanism")
    options = dict(term.options)
    written = options.pop("heads", None)
    if written is not None and not mechanism.accepts_heads:
        raise SpecificationError(f"'{term.name}' cannot be limited to some heads; omit heads=")
    read = make_options(Term(term.name, options), options_of(mechanism, cross))
    heads = mechanism.usual_heads
    if written:
        heads = None if written == "all" else parse_numbers(written)
    layers = mechanism.usual_layers if term.layers is None else term.layers
    return Use(mechanism, read, layers, heads)


def options_of(mechanism: type[Mechanism], cross: bool) -> type[DataclassInstance]:
    return (mechanism.CrossOptions if cross else None) or mechanism.Options


def existing(heads: tuple[int, ...] | None, shape: AttentionShape) -> tuple[int, ...] | None:
    """Remove heads that the model does not have; default heads may include such heads."""
    return heads and tuple(head for head in heads if head < shape.heads)


def check_layer(layer: int, uses: list[Use], shape: AttentionShape) -> None:
    """Raise a SpecificationError if a mechanism occurs twice or its `check` fails."""
    names = [use.mechanism.name for use in uses]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SpecificationError(f"'{twice.pop()}' occurs twice in layer {layer}; remove one")
    for use in uses:
        others = [other for other in uses if other != use]
        try:
            use.mechanism.check(use.options, shape, others)
            if use.mechanism.learns_from_trees:
                refuse_masks(use, others, shape)
        except ValueError as error:
            raise SpecificationError(f"{use} in layer {layer}: {error}") from None


def refuse_masks(use: Use, others: list[Use], shape: AttentionShape) -> None:
    """Raise a ValueError if a mask might hide the target word of a head supervised by trees."""
    for other in others:
        mask = other.mechanism
        if not issubclass(mask, ScoreMask) or not mask.forbids(other.options):
            continue
        both = set(heads_in(use, shape)) & set(heads_in(other, shape))
        if both:
            raise ValueError(
                f"'{mask.name}' hides from head {min(both)} words that '{use.mechanism.name}' "
                "trains it to attend to; assign them to different heads with heads=..."
            )


def heads_in(use: Use, shape: AttentionShape) -> tuple[int, ...]:
    heads = existing(use.heads, shape)
    return tuple(range(shape.heads)) if heads is None else heads


def check_range(use: str, numbers: tuple[int, ...] | None, count: int, unit: str) -> None:
    """Raise a SpecificationError if a layer or head index is `count` or greater."""
    if numbers is not None and max(numbers) >= count:
        has = f"{count} {unit}s, 0 to {count - 1}" if count > 1 else f"one {unit}, 0"
        raise SpecificationError(f"{use.format(format_numbers(numbers))}: the model has {has}")


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
    """Return the self-attention of one layer, with the mechanisms of a specification.

        layer = build_self_attention("window(size=5)@0-2 + relative", 512, 8, layer=0, layers=6)

    Raise an InputError if the specification or another argument is invalid.

    layer: the index of the layer, starting at 0.
    relations: vocabulary size of the dependency relations, if a mechanism reads them.
    """
    if heads < 1:
        raise InputError(f"heads={heads} is too small; use at least one attention head")
    if not 0 <= layer < layers:
        raise InputError(
            f"layer={layer} is out of range; it must be at least 0 and less than layers={layers}"
        )
    read = AttentionSpecification(specification)
    shape = AttentionShape(heads, width // heads, max_positions, relations)
    read.check(layers, shape)
    if read.needs_labels and relations <= UNKNOWN_LABEL:
        raise InputError(
            f"'{read}' reads dependency relations; pass relations=N, the number of different "
            f"relations plus {UNKNOWN_LABEL}, because their indices start at {UNKNOWN_LABEL}"
        )
    rate = nn.Dropout(dropout) if dropout else None
    return MultiheadSelfAttention(width, heads, read.build(layer, shape), rate)
