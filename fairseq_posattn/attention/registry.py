"""The table of mechanisms, and the way from a specification to the modules of a layer."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.attention.block import Block
from fairseq_posattn.attention.cnn import Cnn
from fairseq_posattn.attention.convolved import Convolved1d, Convolved2d
from fairseq_posattn.attention.direct import DirectAbsolute, DirectRelative
from fairseq_posattn.attention.directional import Directional
from fairseq_posattn.attention.gaussian import Gaussian
from fairseq_posattn.attention.local import LocalHard, LocalSoft
from fairseq_posattn.attention.mechanism import (
    AttentionReplacement,
    AttentionShape,
    Mechanism,
    SubLayer,
)
from fairseq_posattn.attention.parent_scaled import ParentScaled
from fairseq_posattn.attention.relative import Relative
from fairseq_posattn.attention.temperature import Temperature
from fairseq_posattn.attention.tree_relative import TreeRelative
from fairseq_posattn.attention.window import Window
from fairseq_posattn.specification import (
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
class Placed:
    """A mechanism with its options read, on its layers (None: all) and heads (None: all)."""

    mechanism: type[Mechanism]
    options: object
    layers: tuple[int, ...] | None
    heads: tuple[int, ...] | None

    def __str__(self) -> str:
        pairs = format_options(self.options)
        if self.heads != self.mechanism.usual_heads or self.heads is not None:
            pairs.append(f"heads={'all' if self.heads is None else format_numbers(self.heads)}")
        return format_term(self.mechanism.name, pairs, self.layers)


class AttentionSpecification:
    """A whole specification: which mechanisms act in which layer. str() is its canonical form."""

    def __init__(self, text: str = ""):
        self.placed = [place(term) for term in parse(text)]

    def __str__(self) -> str:
        return " + ".join(map(str, self.placed))

    @property
    def needs_tree(self) -> bool:
        return any(placed.mechanism.needs_tree for placed in self.placed)

    def check(self, layers: int, shape: AttentionShape) -> None:
        """Refuse layers or heads that do not exist, a mechanism twice in one layer, and what a
        mechanism itself says cannot work."""
        for placed in self.placed:
            name = placed.mechanism.name
            check_range(f"{name}@", placed.layers, layers, "layers")
            if placed.heads != placed.mechanism.usual_heads:
                check_range(f"{name}(heads=...), ", placed.heads, shape.heads, "attention heads")
        for layer in range(layers):
            check_layer(layer, self.in_layer(layer), shape)

    def check_causal(self) -> None:
        """Refuse what cannot stand in a decoder."""
        for placed in self.placed:
            mechanism = placed.mechanism
            if not mechanism.causal_safe or issubclass(mechanism, (SubLayer, AttentionReplacement)):
                reason = "would look at words that are not yet translated"
                if mechanism.needs_tree:
                    reason = "reads trees, and a target has none"
                safe = ", ".join(sorted(m.name for m in MECHANISMS.values() if m.causal_safe))
                raise SpecificationError(
                    f"'{mechanism.name}' {reason}; --decoder-attention takes: {safe}"
                )

    def in_layer(self, layer: int) -> list[Placed]:
        return [placed for placed in self.placed if placed.layers is None or layer in placed.layers]

    def build(self, layer: int, shape: AttentionShape) -> list[Mechanism]:
        """New modules for one layer."""
        return [
            placed.mechanism(placed.options, shape, existing(placed.heads, shape))
            for placed in self.in_layer(layer)
        ]


def place(term: Term) -> Placed:
    mechanism = lookup(term, MECHANISMS, "attention mechanism")
    options = dict(term.options)
    heads = options.pop("heads", None)
    if heads is not None and not mechanism.accepts_heads:
        raise SpecificationError(f"'{term.name}' cannot be limited to some heads")
    read = make_options(Term(term.name, options), mechanism.Options)
    heads = heads_of(heads) if heads else mechanism.usual_heads
    layers = mechanism.usual_layers if term.layers is None else term.layers
    return Placed(mechanism, read, layers, heads)


def heads_of(text: str) -> tuple[int, ...] | None:
    return None if text == "all" else parse_numbers(text)


def existing(heads: tuple[int, ...] | None, shape: AttentionShape) -> tuple[int, ...] | None:
    """The usual heads of a mechanism may be more than the model has."""
    return heads and tuple(head for head in heads if head < shape.heads)


def check_layer(layer: int, placed: list[Placed], shape: AttentionShape) -> None:
    names = [p.mechanism.name for p in placed]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SpecificationError(f"'{twice.pop()}' stands twice in layer {layer}")
    for one in placed:
        try:
            one.mechanism.check(one.options, shape, [other for other in placed if other != one])
        except ValueError as error:
            raise SpecificationError(f"{one}, in layer {layer}: {error}") from None


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
