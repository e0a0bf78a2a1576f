"""The slow reference is checked against trees and numbers worked out by hand.

The reference itself is only trusted because of this file.
"""

import math

import pytest

from support import hand_drawn, reference


@pytest.mark.parametrize("drawn", hand_drawn.ALL, ids=lambda drawn: drawn.name)
def test_depths_and_relations(drawn):
    tree = drawn.parents, drawn.pieces, drawn.keep
    assert reference.piece_depths(*tree) == drawn.depths
    assert reference.relations(*tree) == drawn.relations


def test_sinusoid_by_hand():
    expected = [math.sin(2), math.sin(0.02), math.sin(2e-4)]
    expected += [math.cos(2), math.cos(0.02), math.cos(2e-4), 0]
    assert reference.sinusoid(2, 7) == pytest.approx(expected)


@pytest.mark.parametrize("width", [4, 7, 32])
def test_sinusoid_has_fairseqs_frequencies(width):
    fairseq = pytest.importorskip("fairseq.modules.sinusoidal_positional_embedding")
    table = fairseq.SinusoidalPositionalEmbedding.get_embedding(40, width)
    for value in range(40):
        assert table[value].tolist() == pytest.approx(reference.sinusoid(value, width), abs=1e-5)
