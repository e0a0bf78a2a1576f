"""The table of mechanisms, and the way from a specification to the modules of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairseq_posattn.core.attention.block import Block
from fairseq_posattn.core.attention.cnn import Cnn
from fairseq_posattn.core.attention.convolved import Convolved1d, Convolved2d
from fairseq_posattn.core.attention.direct import DirectAbsolute, DirectRelative
from fairseq_posattn.core.attention.directional import Directional
from fairseq_posattn.core.attention.gaussian import Gaussian
from fairseq_posattn.core.attention.local import LocalHard, LocalSoft
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    Heads,
    Mechanism,
    PostAttention,
    PreAttention,
)
from fairseq_posattn.core.attention.parent_scaled import ParentScaled
from fairseq_posattn.core.attention.relative import Relative
from fairseq_posattn.core.attention.temperature import Temperature
from fairseq_posattn.core.attention.tree_relative import TreeRelative
from fairseq_posattn.core.attention.window import Window
from fairseq_posattn.core.specification import (
    SpecificationError,
    Term,
    format_numbers,
    format_options,
    format_term,
    lookup,
    make_options,
    parse,
    parse_numbers,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MECHANISMS: dict[str, type[Mechanism]] = {}


def register(mechanism: type[Mechanism]) -> type[Mechanism]:
    """Add a mechanism to the table; also for files outside the package, as a class decorator."""
    if MECHANISMS.setdefault(mechanism.name, mechanism) is not mechanism:
        raise ValueError(f"a mechanism called '{mechanism.name}' is registered already")
    return mechanism


for _mechanism in (
    *(Relative, TreeRelative, Window, Directional, Gaussian, LocalHard, LocalSoft, Block, Cnn),
    *(DirectAbsolute, DirectRelative, Temperature, Convolved1d, Convolved2d, ParentScaled),
):
    register(_mechanism)


@dataclass(frozen=True)
class MechanismUse:
    """A mechanism with its options read, on its layers (None: all) and heads (None: all)."""

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
    """A whole specification: which mechanisms act in which layer. str() is its canonical form."""

    def __init__(self, text: str = ""):
        self.uses = [use_of(term) for term in parse(text)]

    def __str__(self) -> str:
        return " + ".join(map(str, self.uses))

    @property
    def needs_tree(self) -> bool:
        return any(use.mechanism.needs_tree for use in self.uses)

    def check(self, layers: int, shape: AttentionShape) -> None:
        """Refuse layers or heads that do not exist, a mechanism twice in one layer, and what a
        mechanism itself says cannot work."""
        for use in self.uses:
            name = use.mechanism.name
            check_range(f"{name}@", use.layers, layers, "layers")
            if use.heads != use.mechanism.usual_heads:
                check_range(f"{name}(heads=...), ", use.heads, shape.heads, "attention heads")
        for layer in range(layers):
            check_layer(layer, self.in_layer(layer), shape)

    def check_causal(self) -> None:
        """Refuse what cannot stand in a decoder."""
        for use in self.uses:
            mechanism = use.mechanism
            if not mechanism.causal_safe or issubclass(mechanism, (PreAttention, PostAttention)):
                reason = "would look at words that are not yet translated"
                if mechanism.needs_tree:
                    reason = "reads trees, and a target has none"
                safe = ", ".join(sorted(m.name for m in MECHANISMS.values() if m.causal_safe))
                raise SpecificationError(
                    f"'{mechanism.name}' {reason}; --decoder-attention takes: {safe}"
                )

    def in_layer(self, layer: int) -> list[MechanismUse]:
        return [use for use in self.uses if use.layers is None or layer in use.layers]

    def build(self, layer: int, shape: AttentionShape) -> list[Mechanism]:
        """New modules for one layer."""
        return [
            use.mechanism(use.options, shape, existing(use.heads, shape))
            for use in self.in_layer(layer)
        ]


def use_of(term: Term) -> MechanismUse:
    mechanism = lookup(term, MECHANISMS, "attention mechanism")
    options = dict(term.options)
    written = options.pop("heads", None)
    if written is not None and not mechanism.accepts_heads:
        raise SpecificationError(f"'{term.name}' cannot be limited to some heads")
    read = make_options(Term(term.name, options), mechanism.Options)
    heads = heads_of(written) if written else mechanism.usual_heads
    layers = mechanism.usual_layers if term.layers is None else term.layers
    return MechanismUse(mechanism, read, layers, heads)


def heads_of(text: str) -> tuple[int, ...] | None:
    return None if text == "all" else parse_numbers(text)


def existing(heads: tuple[int, ...] | None, shape: AttentionShape) -> tuple[int, ...] | None:
    """The usual heads of a mechanism may be more than the model has."""
    return heads and tuple(head for head in heads if head < shape.heads)


def check_layer(layer: int, uses: list[MechanismUse], shape: AttentionShape) -> None:
    names = [use.mechanism.name for use in uses]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SpecificationError(f"'{twice.pop()}' stands twice in layer {layer}")
    for use in uses:
        try:
            use.mechanism.check(use.options, shape, [other for other in uses if other != use])
        except ValueError as error:
            raise SpecificationError(f"{use}, in layer {layer}: {error}") from None


def check_range(what: str, numbers: tuple[int, ...] | None, count: int, unit: str) -> None:
    if numbers is not None and max(numbers) >= count:
        raise SpecificationError(
            f"{what}{format_numbers(numbers)}: the model has {count} {unit}, 0 to {count - 1}"
        )


def describe(side: str = "encoder") -> str:
    """Every mechanism with its options and defaults, for '--encoder-attention help'."""
    lines = [f"Mechanisms for --{side}-attention, joined by '+', each name(option=value)@layers:"]
    for name, mechanism in sorted(MECHANISMS.items()):
        if side == "decoder" and not mechanism.causal_safe:
            continue
        pairs = format_options(mechanism.Options())
        if mechanism.accepts_heads:
            usual = mechanism.usual_heads
            pairs.append(f"heads={'all' if usual is None else format_numbers(usual)}")
        remark = "  [needs trees]" if mechanism.needs_tree else ""
        summary = (mechanism.__doc__ or "").strip().splitlines()[0]
        lines += [
            f"  {format_term(name, pairs, mechanism.usual_layers)}{remark}",
            f"      {summary}",
        ]
    return "\n".join(lines)
