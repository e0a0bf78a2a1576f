"""A small layer of attention for pictures: random numbers that are the same every time.

A word has the same vector wherever it stands, so two words that are alike look alike, and what
tells them apart in a picture is the mechanism.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    Mechanism,
    MultiheadSelfAttention,
)

HEAD_WIDTH = 8
SPREAD = 1.3  # of the numbers of a word's vector: weights that differ, none of them near 1
SHIFT = 0.5  # of the numbers that move a parameter away from a start that does nothing


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make torch's random numbers those of a seed, and put its generator back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def word_vectors(words: Sequence[str], width: int, seed: int) -> Tensor:
    """Return a random vector for each word, the same for the same word: T 1 C."""
    generator, found = torch.Generator(), []
    for word in words:
        digest = hashlib.sha256(f"{seed} {word}".encode()).digest()
        generator.manual_seed(int.from_bytes(digest[:6], "big"))
        found.append(torch.randn(width, generator=generator))
    return SPREAD * torch.stack(found)[:, None]


def make_layer(
    specification: AttentionSpecification, number: int, shape: AttentionShape, seed: int
) -> MultiheadSelfAttention:
    """Return the attention of one layer with its mechanisms as they are before any training."""
    with seeded(seed):
        return with_projections(specification.build(number, shape), shape, seed)


def with_projections(
    mechanisms: Sequence[Mechanism], shape: AttentionShape, seed: int
) -> MultiheadSelfAttention:
    """Return attention whose projections depend on the seed alone, not on the mechanisms."""
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
    """Move the parameters of mechanisms that do nothing at their start, and return their names.

    A temperature of 1 or a table of zeros would make a picture of nothing.
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
    """Return whether a layer with this mechanism alone gives what a layer without any gives."""
    alone, plain = (with_projections(found, shape, seed) for found in ([mechanism], []))
    pair = alone(alone.before(x, ctx), ctx)[0], plain(x, ctx)[0]
    return torch.allclose(*pair, atol=1e-5)  # one may be of the fused kernel, the other of steps
