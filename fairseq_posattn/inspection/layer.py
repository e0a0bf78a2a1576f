"""Build a small attention layer with reproducible random parameters for pictures.

All occurrences of a word have the same vector, and there are no position embeddings. Any difference
between these occurrences in a picture is therefore due to the mechanism.
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
