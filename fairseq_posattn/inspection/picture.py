"""Compute the content of a picture: words, tree, rows of matrices, and notes.

A picture shows a small attention layer with reproducible random parameters. All occurrences of a
word have the same vector, and there are no position embeddings. Any difference between these
occurrences in a picture is therefore due to the mechanism.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    Mechanism,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.registration import first_paragraph
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.core.specification import SpecificationError, format_numbers
from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.plotting import printable
from fairseq_posattn.inspection.request import HEADS, SEED
from fairseq_posattn.inspection.rows import Row
from fairseq_posattn.inspection.sentence import END, context
from fairseq_posattn.inspection.trace import trace
from fairseq_posattn.trees.drawing import TreeLayout
from fairseq_posattn.trees.sentence import Sentence

HEAD_WIDTH = 8
SPREAD = 1.3  # standard deviation of word vectors; attention weights differ, but none is near 1
SHIFT = 0.5  # standard deviation of noise on parameters that initially have no effect


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random number generator, and restore its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def word_vectors(words: Sequence[str], width: int, seed: int) -> Tensor:
    """Return random word vectors of shape (T, 1, C); equal words have equal vectors."""
    generator, found = torch.Generator(), []
    for word in words:
        digest = hashlib.sha256(f"{seed} {word}".encode()).digest()
        generator.manual_seed(int.from_bytes(digest[:6], "big"))
        found.append(torch.randn(width, generator=generator))
    return SPREAD * torch.stack(found)[:, None]


def make_layer(
    specification: AttentionSpecification, number: int, shape: AttentionShape, seed: int
) -> MultiheadSelfAttention:
    """Create the self-attention module of one layer, with newly initialised mechanisms."""
    with seeded(seed):
        return with_projections(specification.build(number, shape), shape, seed)


def with_projections(
    mechanisms: Sequence[Mechanism], shape: AttentionShape, seed: int
) -> MultiheadSelfAttention:
    """Return an attention layer with random projections that depend only on the seed."""
    with seeded(seed):
        layer = MultiheadSelfAttention(shape.width, shape.heads, mechanisms)
    return layer.requires_grad_(False).eval()


@torch.no_grad()
def move_neutral(
    mechanisms: Sequence[Mechanism],
    shape: AttentionShape,
    x: Tensor,
    ctx: AttentionContext,
    seed: int,
) -> list[str]:
    """Add noise to the parameters of mechanisms that initially have no effect.

    Without noise, a picture would not show what such a mechanism does, for instance if a
    temperature is 1 or a table contains only zeros. Returns the names of the changed mechanisms.
    """
    moved = [m for m in mechanisms if list(m.parameters()) and does_nothing(m, shape, x, ctx, seed)]
    for mechanism in moved:
        with seeded(seed):
            for parameter in mechanism.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=SHIFT)
    return [mechanism.name for mechanism in moved]


def does_nothing(
    mechanism: Mechanism, shape: AttentionShape, x: Tensor, ctx: AttentionContext, seed: int
) -> bool:
    """Return whether a mechanism leaves the output of an attention layer unchanged."""
    alone, plain = (with_projections(found, shape, seed) for found in ([mechanism], []))
    pair = alone(alone.before(x, ctx), ctx)[0], plain(x, ctx)[0]
    return torch.allclose(*pair, atol=1e-5)  # atol: only one may use the fused kernel


READING = "Rows of a matrix are queries i, columns are keys j."


class About(NamedTuple):
    """The name, summary and equation of a mechanism."""

    name: str
    summary: str
    equation: str


@dataclass(frozen=True)
class Picture:
    """The content of a picture.

    tree: the dependency tree, or None if no mechanism reads it or the sentence has none.
    """

    title: str
    mechanisms: tuple[About, ...]
    notes: tuple[str, ...]
    pieces: tuple[str, ...]
    tree: TreeLayout | None
    rows: tuple[Row, ...]


def make_picture(
    text: str,
    sentence: Sentence,
    layer: int | None = None,
    heads: int | None = None,
    seed: int = SEED,
) -> Picture:
    """Compute the picture of one layer of a specification, with random vectors and projections.

    Example:

        make_picture("tree_relative + window(size=3)", BUILT_IN)

    text: attention specification.
    layer: layer number (default: the first layer in which a mechanism acts).
    heads: number of heads (default: 4, or more if the specification requires more).

    Raises InputError if a mechanism needs a tree but the sentence has none.
    """
    specification = AttentionSpecification(text)
    number = acting_layer(specification, layer)
    pieces = (*sentence.words, END)
    relations = UNKNOWN_LABEL + len(pieces)  # an upper bound
    shape = AttentionShape(
        *(head_count(specification, heads), HEAD_WIDTH, len(pieces), relations),
        brackets=OPENING in pieces and CLOSING in pieces,
    )
    named = [max(use.layers) for use in specification.uses if use.layers]
    specification.check(max([number, *named]) + 1, shape)
    refuse_without_tree(specification, number, sentence)
    ctx = context(sentence)
    attention = make_layer(specification, number, shape, seed)
    x = word_vectors(pieces, shape.width, seed)
    mechanisms = of_stage(attention.mechanisms.values(), Mechanism)
    moved = move_neutral(mechanisms, shape, x, ctx, seed)
    return Picture(
        title=" + ".join(str(use) for use in specification.in_layer(number)),
        mechanisms=about(mechanisms),
        notes=(f"Layer {number}, {shape.heads} heads.", *notes(mechanisms, moved, seed), READING),
        pieces=pieces,
        tree=layout_of(sentence, mechanisms),
        rows=tuple(trace(attention, x, ctx)),
    )


def about(mechanisms: Sequence[Mechanism]) -> tuple[About, ...]:
    return tuple(About(m.name, first_paragraph(type(m)), m.equation) for m in mechanisms)


def layout_of(sentence: Sentence, mechanisms: Sequence[Mechanism]) -> TreeLayout | None:
    """Return the layout of the tree, or None if there is no tree or no mechanism reads it."""
    reads = any(one.needs_tree or one.learns_from_trees for one in mechanisms)
    if not sentence.parents or not reads:
        return None
    relations = sentence.relations and [printable(name) for name in sentence.relations]
    return TreeLayout([*map(printable, sentence.words)], sentence.parents, relations)


def acting_layer(specification: AttentionSpecification, layer: int | None) -> int:
    """Return the requested layer (default: the first layer in which a mechanism acts).

    Raises SpecificationError if no mechanism acts in the layer.
    """
    if not specification.uses:
        raise SpecificationError(
            "the specification is empty; specify a mechanism, such as 'window'"
        )
    if layer is not None and not specification.in_layer(layer):
        acting = {number for use in specification.uses for number in use.layers or ()}
        raise SpecificationError(
            f"--layer {layer}: no mechanism of '{specification}' acts in this layer; "
            f"choose {format_numbers(tuple(sorted(acting)))}"
        )
    first = min(min(use.layers) if use.layers else 0 for use in specification.uses)
    return first if layer is None else layer


def head_count(specification: AttentionSpecification, asked: int | None) -> int:
    """Return the requested number of heads.

    The default is 4, or more if the specification requires more. Raises InputError if the requested
    number is too small for the specification.
    """
    named = [
        max(use.heads) + 1
        for use in specification.uses
        if use.heads and use.heads != use.mechanism.usual_heads
    ]
    if asked is not None and asked < max(named, default=0):
        raise InputError(
            f"--heads {asked}: '{specification}' refers to head {max(named) - 1}, counted from 0; "
            f"draw at least {max(named)} heads"
        )
    return asked or max([HEADS, *named])


def refuse_without_tree(
    specification: AttentionSpecification, layer: int, sentence: Sentence
) -> None:
    for use in specification.in_layer(layer):
        if use.mechanism.needs_tree and sentence.parents is None:
            where = f"the sentence at {sentence.where}" if sentence.path else "--sentence"
            raise InputError(
                f"'{use.mechanism.name}' needs a dependency tree, but {where} has none; use "
                "--conllu FILE to draw a sentence with a tree"
            )


def notes(mechanisms: Sequence[Mechanism], moved: Sequence[str], seed: int) -> list[str]:
    said = [f"Word vectors and projections are random (seed {seed})."]
    started = [m.name for m in mechanisms if list(m.parameters())]
    started = [name for name in started if name not in moved]
    if started:
        said.append(f"{' and '.join(started)}: the parameters are untrained.")
    if moved:
        said.append(
            f"{' and '.join(moved)}: the initial parameters have no effect, so random numbers with "
            f"a standard deviation of {SHIFT} are added to them."
        )
    return said
