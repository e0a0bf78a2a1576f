"""Register positions, and parse specifications such as 'sequence + tree_depth(fuse=add)'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.positions.label_embeddings import RelationEmbedding, TagEmbedding
from fairseq_posattn.core.positions.position import Position, PositionShape, sinusoid
from fairseq_posattn.core.registration import (
    NEEDS_TREES,
    TAKEN_BY_TORCH,
    add,
    check_labels,
    help_text,
)
from fairseq_posattn.core.specification import (
    SpecificationError,
    Term,
    format_options,
    format_term,
    make_options,
    parse,
    reason_against_decoders,
    refuse_in_decoders,
    registered,
)
from fairseq_posattn.files.records import one_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

POSITIONS: dict[str, type[Position]] = {}
PositionClass = TypeVar("PositionClass", bound=Position)
INTRODUCTION = """\
Positions for --{side}-positions. Join several by '+', except 'none':

    {example}

Defaults of options are shown below."""
EXAMPLES = {"encoder": "sequence + tree_depth(fuse=add)", "decoder": "none"}


def register(position: type[PositionClass]) -> type[PositionClass]:
    """Class decorator that makes a position available in specifications.

    Raise a RegistrationError, which states the class and its line number, if the class is invalid.
    """
    add(POSITIONS, position, Position, "position", TAKEN_BY_TORCH, check_labels)
    return position


@register
class NoPosition(Position):
    """No absolute positions."""

    name = "none"
    causal_safe = True


@register
class SequencePosition(Position):
    """Adds fairseq's (sinusoidal or learnt) embedding of the position in the sequence."""

    name = "sequence"
    paper = "Vaswani et al. 2017"
    causal_safe = True


@dataclass(frozen=True)
class TreeDepthOptions:
    fuse: str = option(
        "nonlinear",
        "combination with 'sequence': tanh(W [seq;tree] + b) (nonlinear), or the sum (add)",
        one_of("add", "nonlinear"),
    )


@register
class TreeDepth(Position):
    """Adds a sinusoidal embedding of the word's depth in the dependency tree."""

    name = "tree_depth"
    paper = "Wang et al. 2019, Eq. 3, 5 and 7"
    Options = TreeDepthOptions
    needs_tree = True

    def forward(self, ctx: AttentionContext) -> Tensor:
        """Return embeddings of depths, (B, T, C), which `joined` combines with `sequence`."""
        return sinusoid(ctx.given_tree.depths, self.shape.width)


for _position in (RelationEmbedding, TagEmbedding):
    register(_position)


# No modules are built for these: 'sequence' uses fairseq's embedding, which the model contains.
OF_THE_MODEL = (NoPosition, SequencePosition)


@dataclass(frozen=True)
class PositionUse:
    position: type[Position]
    options: DataclassInstance


class PositionSpecification:
    """The absolute positions of a model; str() returns the canonical specification.

    Example:

        positions = PositionSpecification("sequence + tree_depth").build(PositionShape(512))
    """

    def __init__(self, text: str = "sequence"):
        terms = parse(text)
        uses = {term.name: use_of(term) for term in terms}
        if any(term.layers is not None for term in terms):
            raise SpecificationError(f"'{text}': positions have no layers; remove '@'")
        if not terms or len(uses) < len(terms) or ("none" in uses and len(uses) > 1):
            known = ", ".join(POSITIONS)
            raise SpecificationError(
                f"'{text}': expected {known}, or several of them joined by '+', each at most once "
                "and without 'none'"
            )
        self.sequence = "sequence" in uses
        self.uses = in_order(uses)
        tree_depth = uses["tree_depth"].options if "tree_depth" in uses else None
        assert tree_depth is None or isinstance(tree_depth, TreeDepthOptions)  # implied by its name
        self.tree_depth = tree_depth
        fuses = any(term.options for term in terms if term.name == "tree_depth")
        if fuses and not self.sequence:
            raise SpecificationError(f"'{text}': fuse requires 'sequence'; add it, or omit fuse")

    @property
    def needs_tree(self) -> bool:
        return any(use.position.needs_tree for use in self.uses)

    @property
    def needs_labels(self) -> set[str]:
        return {kind for use in self.uses for kind in use.position.needs_labels}

    def __str__(self) -> str:
        return " + ".join(map(self.format, self.uses))

    def format(self, use: PositionUse) -> str:
        fuses_nothing = use.position is TreeDepth and not self.sequence
        pairs = [] if fuses_nothing else format_options(use.options)
        return format_term(use.position.name, pairs)

    def check(self, shape: PositionShape) -> None:
        """Raise a SpecificationError if a positional encoding does not work in this model."""
        for use in self.uses:
            try:
                use.position.check(use.options, shape)
            except ValueError as error:
                raise SpecificationError(f"{self.format(use)}: {error}") from None

    def check_causal(self) -> None:
        """Raise a SpecificationError if a position cannot be used in a decoder."""
        chosen = [use.position for use in self.uses]
        safe = safe_in_decoders()
        refuse_in_decoders(chosen, reason_against_decoders, "--decoder-positions", safe)

    def build(self, shape: PositionShape) -> list[Position]:
        """Return new modules for all positions except 'none' and fairseq's own, 'sequence'."""
        return [
            use.position(use.options, shape)
            for use in self.uses
            if use.position not in OF_THE_MODEL
        ]


def joined(
    sequence: Tensor | None,
    others: Iterable[nn.Module],
    ctx: AttentionContext,
    fuser: nn.Module | None = None,
) -> Tensor | None:
    """Return the combination of all positions that are added to the embeddings, or None.

    The shape is (B, Q, C) or (1, Q, C).

    fuser: module that combines the sequence position with the tree depth (f_abs in Eq. 7). If it is
        None, the two are added.
    """
    whole = sequence
    for position in others:
        if position.changes_input:
            continue
        vectors = position(ctx)
        if whole is None:
            whole = vectors
        elif fuser is not None and isinstance(position, TreeDepth):
            whole = fuser(whole, vectors.type_as(whole))
        else:
            whole = whole + vectors.type_as(whole)
    return whole


def use_of(term: Term) -> PositionUse:
    position = registered(term.name, POSITIONS, "position")
    return PositionUse(position, make_options(term, position.Options))


def in_order(uses: Mapping[str, PositionUse]) -> list[PositionUse]:
    """Return the positions in the order of summation: sequence, tree depth, then the others."""
    first = [uses[name] for name in ("sequence", "tree_depth") if name in uses]
    return first + [use for use in uses.values() if use not in first]


def safe_in_decoders() -> list[str]:
    """Return the names of all positions that can be used in decoders."""
    return [
        name for name, position in POSITIONS.items() if reason_against_decoders(position) is None
    ]


def describe(side: str = "encoder") -> str:
    """Return the text of `--encoder-positions help` or `--decoder-positions help`."""
    names = list(POSITIONS) if side == "encoder" else safe_in_decoders()
    remarks = {name: NEEDS_TREES for name in names if POSITIONS[name].needs_tree}
    taken = {name: POSITIONS[name] for name in names}
    return help_text(INTRODUCTION.format(side=side, example=EXAMPLES[side]), taken, remarks, {})
