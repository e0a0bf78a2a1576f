"""The table of mechanisms, and the way from a specification to the modules of a layer."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.attention.mechanism import AttentionShape, Mechanism
from fairseq_posattn.attention.relative import Relative
from fairseq_posattn.attention.tree_relative import TreeRelative
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


for _mechanism in (Relative, TreeRelative):
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
        if self.heads is not None:
            pairs.append(f"heads={format_numbers(self.heads)}")
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

    def check(self, layers: int, heads: int) -> None:
        """Refuse layers or heads that do not exist, and a mechanism twice in one layer."""
        for placed in self.placed:
            name = placed.mechanism.name
            check_range(f"{name}@", placed.layers, layers, "layers")
            check_range(f"{name}(heads=...), ", placed.heads, heads, "attention heads")
        for layer in range(layers):
            names = [placed.mechanism.name for placed in self.in_layer(layer)]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise SpecificationError(f"'{twice.pop()}' stands twice in layer {layer}")

    def in_layer(self, layer: int) -> list[Placed]:
        return [placed for placed in self.placed if placed.layers is None or layer in placed.layers]

    def build(self, layer: int, shape: AttentionShape) -> list[Mechanism]:
        """New modules for one layer."""
        return [
            placed.mechanism(placed.options, shape, placed.heads) for placed in self.in_layer(layer)
        ]


def place(term: Term) -> Placed:
    mechanism = lookup(term, MECHANISMS, "attention mechanism")
    options = dict(term.options)
    heads = options.pop("heads", None)
    if heads is not None and not mechanism.accepts_heads:
        raise SpecificationError(f"'{term.name}' cannot be limited to some heads")
    read = make_options(Term(term.name, options), mechanism.Options)
    return Placed(mechanism, read, term.layers, heads and parse_numbers(heads))


def check_range(what: str, numbers: tuple[int, ...] | None, count: int, unit: str) -> None:
    if numbers is not None and max(numbers) >= count:
        raise SpecificationError(
            f"{what}{format_numbers(numbers)}: the model has {count} {unit}, 0 to {count - 1}"
        )


def describe() -> str:
    """Every mechanism with its options and defaults, for '--encoder-attention help'."""
    lines = ["Mechanisms for --encoder-attention, joined by '+', each name(option=value)@layers:"]
    for name, mechanism in sorted(MECHANISMS.items()):
        pairs = format_options(mechanism.Options())
        pairs += ["heads=all"] if mechanism.accepts_heads else []
        remark = "  [needs trees]" if mechanism.needs_tree else ""
        summary = (mechanism.__doc__ or "").strip().splitlines()[0]
        lines += [f"  {format_term(name, pairs)}{remark}", f"      {summary}"]
    return "\n".join(lines)
