"""Depths and relations on tensors are those of hand-drawn trees and of the loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_posattn.core.positions import SourceTree, sinusoid
from fairseq_posattn.trees.store_format import collate, pack
from support import hand_drawn, reference


def batch(trees, keep=None, left=False) -> SourceTree:
    """As the loader lays a batch out: (parents, pieces) of each sentence, pieces kept of each."""
    kept = keep or [None] * len(trees)
    counts = [
        sum(p) if k is None else min(k, sum(p)) for (_, p), k in zip(trees, kept, strict=True)
    ]
    length = max(counts) + 1 + 2  # two columns of padding at least
    columns = torch.arange(length)
    ends = torch.tensor(counts)[:, None] + 1
    real = columns >= length - ends if left else columns < ends
    records = torch.from_numpy(collate(*pack(trees), np.array(counts)))
    return SourceTree.of_batch(records, real)


def row(tree: SourceTree, k: int):
    """Return depths and relations of the real columns of one sentence, as lists."""
    real = tree.words[k] >= 0
    return tree.depths[k][real].tolist(), tree.relations[k][real][:, real].tolist()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("drawn", hand_drawn.ALL, ids=lambda drawn: drawn.name)
def test_hand_drawn_trees(drawn, left):
    other = ([0, 1, 1], [2, 1, 1])
    tree = batch([other, (drawn.parents, drawn.pieces)], [None, drawn.keep], left)
    assert row(tree, 1) == (drawn.depths, drawn.relations)


@pytest.mark.parametrize(
    "parents", [range(200), [100] * 99 + [0] + [100] * 100], ids=["chain", "star"]
)
def test_two_hundred_words(parents):
    parents = [*parents]
    pieces = [1] * len(parents)
    depths, relations = row(batch([(parents, pieces)]), 0)
    assert depths == reference.piece_depths(parents, pieces)
    assert relations == reference.relations(parents, pieces)


@st.composite
def trees(draw):
    count = draw(st.integers(0, 12))
    order = draw(st.permutations(range(count)))
    parents = [0] * count
    for k, word in enumerate(order[1:], 1):
        parents[word] = order[draw(st.integers(0, k - 1))] + 1
    pieces = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    keep = draw(st.none() | st.integers(0, sum(pieces)))
    return parents, pieces, keep


@settings(max_examples=60)
@given(st.lists(trees(), min_size=1, max_size=4), st.booleans())
def test_random_trees_equal_the_loops(sentences, left):
    tree = batch([s[:2] for s in sentences], [s[2] for s in sentences], left)
    for k, sentence in enumerate(sentences):
        expected = reference.piece_depths(*sentence), reference.relations(*sentence)
        assert row(tree, k) == expected
    padding = tree.words < 0
    assert (tree.depths[padding] == 0).all()


@pytest.mark.parametrize("width", [4, 5, 32, 33])
def test_sinusoid_has_fairseqs_frequencies(width):
    fairseq = pytest.importorskip("fairseq.modules.sinusoidal_positional_embedding")
    table = fairseq.SinusoidalPositionalEmbedding.get_embedding(301, width)
    values = torch.tensor([[0, 1, 2], [7, 50, 300]])
    torch.testing.assert_close(sinusoid(values, width), table[values], atol=2e-5, rtol=0)


def test_depth_one_is_not_a_zero_vector():
    """Looked up in fairseq's own table, whose padding row is zero, it would be."""
    assert sinusoid(torch.tensor([1]), 8).abs().sum() > 1
