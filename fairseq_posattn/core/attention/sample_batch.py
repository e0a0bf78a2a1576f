"""A small batch of padded sentences with random trees, for testing mechanisms."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_posattn.core.attention.brackets import depths
from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL, SourceTree

WIDTH = 16
LABELS = {"relations": 9, "tags": 7}  # vocabulary sizes, including special symbols
Tree = tuple[list[int], list[int]]


def random_tree(pieces: int, seed: int) -> Tree:
    """Return the word of each piece and the parent of each word in a random tree.

    The first list contains indices of words and also includes the end-of-sentence symbol. In the
    second list, the root is its own parent.
    """
    rng = random.Random(seed)
    words = [0] if pieces else []
    for _ in range(pieces - 1):
        words.append(words[-1] + rng.randint(0, 1))
    count = words[-1] + 1 if words else 0
    order = rng.sample(range(count), count)
    parents = list(range(count))
    for k, word in enumerate(order[1:], 1):
        parents[word] = order[rng.randrange(k)]
    return [*words, count], parents


TREES = [random_tree(9, 1), random_tree(5, 2), random_tree(1, 3), random_tree(0, 4)]


def context(
    trees: Sequence[Tree], length: int | None = None, left: bool = False, width: int | None = None
) -> AttentionContext:
    """Return the context of several sentences, padded on the left or on the right."""
    length = length or max(len(words) for words, _ in trees)
    width = width or max(1, *(len(parents) for _, parents in trees))
    words = torch.full((len(trees), length), -1)
    parents = torch.arange(width).repeat(len(trees), 1)
    for row, (word, parent) in enumerate(trees):
        start = length - len(word) if left else 0
        words[row, start : start + len(word)] = torch.tensor(word, dtype=torch.long)
        parents[row, : len(parent)] = torch.tensor(parent, dtype=torch.long)
    real = words >= 0
    tree = SourceTree(words, parents, labels=some_labels(parents))
    of_rows = None if real.all() else real
    return AttentionContext(length, words.device, of_rows, tree, brackets=some_brackets(real))


def some_brackets(real: Tensor) -> Tensor:
    """Count the open brackets after each piece, (B, K); every six pieces contain two pairs."""
    place = (real.long().cumsum(dim=1) - 1) % 6
    return depths(real & ((place == 1) | (place == 2)), real & ((place == 4) | (place == 5)))


def some_labels(parents: Tensor) -> Tensor:
    """Return pseudo-random relations and parts of speech, of shape (2, B, W)."""
    place = torch.arange(parents.size(1))
    own = [
        UNKNOWN_LABEL + (place * 7919 + parents * 10477) // (13 + k) % (n - UNKNOWN_LABEL)
        for k, n in enumerate(LABELS.values())
    ]
    return torch.stack(own)


def inputs(
    trees: Sequence[Tree],
    ctx: AttentionContext,
    left: bool = False,
    dtype: torch.dtype = torch.double,
) -> Tensor:
    """Return inputs, (T, B, C); a sentence's inputs depend only on its row and length."""
    x = torch.randn(ctx.length, len(trees), WIDTH, dtype=dtype)
    for row, (words, _) in enumerate(trees):
        start = ctx.length - len(words) if left else 0
        own = torch.Generator().manual_seed(row)
        size = (len(words), WIDTH)
        x[start : start + len(words), row] = torch.randn(size, dtype=dtype, generator=own)
    return x


def real_pieces(ctx: AttentionContext) -> Tensor:
    """Return a mask of the pieces that are not padding, of shape (B, K) or (1, K)."""
    if ctx.real is not None:
        return ctx.real
    return torch.ones(1, ctx.length, dtype=torch.bool)


def moved(ctx: AttentionContext, device: str) -> AttentionContext:
    """Copy a context to another device."""
    tree = ctx.tree
    if tree is not None:
        labels = None if tree.labels is None else tree.labels.to(device)
        tree = SourceTree(tree.words.to(device), tree.parents.to(device), labels=labels)
    real = real_pieces(ctx).to(device)
    brackets = None if ctx.brackets is None else ctx.brackets.to(device)
    return AttentionContext(ctx.length, torch.device(device), real, tree, brackets=brackets)
