"""'none', 'sequence', 'tree_depth', 'sequence + tree_depth(fuse=nonlinear)'."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.core.positions.fusers import FUSERS
from fairseq_posattn.core.specification import (
    SpecificationError,
    format_options,
    format_term,
    lookup,
    make_options,
    parse,
)


@dataclass(frozen=True)
class NonePosition:
    """No absolute position at all."""


@dataclass(frozen=True)
class SequencePosition:
    """Position in the sequence: fairseq's own table, sinusoidal or learnt."""


@dataclass(frozen=True)
class TreeDepthPosition:
    """Sinusoid of the depth in the dependency tree; fuse: add or nonlinear, beside 'sequence'."""

    fuse: str = "nonlinear"

    def __post_init__(self) -> None:
        if self.fuse not in FUSERS:
            raise ValueError(f"fuse={self.fuse}: expected one of {', '.join(FUSERS)}")


Position = NonePosition | SequencePosition | TreeDepthPosition
POSITIONS: dict[str, type[Position]] = {
    "none": NonePosition,
    "sequence": SequencePosition,
    "tree_depth": TreeDepthPosition,
}


class PositionSpecification:
    """Which absolute positions the encoder gets. str() gives the canonical form."""

    def __init__(self, text: str = "sequence"):
        terms = parse(text)
        names = [term.name for term in terms]
        options = {t.name: make_options(t, lookup(t, POSITIONS, "position")) for t in terms}
        if any(term.layers is not None for term in terms):
            raise SpecificationError(
                f"'{text}': positions enter below the first layer; leave out '@'"
            )
        if not terms or len(names) != len(set(names)) or ("none" in names and len(names) > 1):
            raise SpecificationError(
                f"'{text}': expected none, sequence, tree_depth, or sequence + tree_depth"
            )
        self.sequence = "sequence" in options
        tree_depth = options.get("tree_depth")
        assert tree_depth is None or isinstance(tree_depth, TreeDepthPosition)  # by its name
        self.tree_depth = tree_depth
        if self.tree_depth and not self.sequence and any(term.options for term in terms):
            raise SpecificationError(f"'{text}': fuse has nothing to fuse without 'sequence'")

    @property
    def needs_tree(self) -> bool:
        return self.tree_depth is not None

    def __str__(self) -> str:
        terms = ["sequence"] if self.sequence else []
        if self.tree_depth:
            pairs = format_options(self.tree_depth) if self.sequence else []
            terms.append(format_term("tree_depth", pairs))
        return " + ".join(terms) or "none"


def describe() -> str:
    """Every position with its options and defaults, for '--encoder-positions help'."""
    lines = ["Positions for --encoder-positions; sequence and tree_depth can be joined by '+':"]
    for name, options in POSITIONS.items():
        summary = (options.__doc__ or "").strip().splitlines()[0]
        lines += [f"  {format_term(name, format_options(options()))}", f"      {summary}"]
    return "\n".join(lines)
