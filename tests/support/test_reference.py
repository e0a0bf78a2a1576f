"""The slow reference is checked against trees and numbers worked out by hand.

The reference itself is only trusted because of this file.
"""

import math

import pytest
import torch

from support import hand_drawn, reference


@pytest.fixture(params=hand_drawn.ALL, ids=lambda drawn: drawn.name)
def drawn(request):
    return request.param


def test_depths(drawn):
    assert reference.depths(drawn.parents) == drawn.depths


def test_piece_depths(drawn):
    found = reference.piece_depths(drawn.parents, drawn.pieces, drawn.keep)
    assert found == drawn.piece_depths


def test_relations(drawn):
    found = reference.relations(drawn.parents, drawn.pieces, drawn.keep)
    assert found == drawn.relations


def test_drawings_are_consistent(drawn):
    """Every relation changes its sign with the direction: a check on the pencil."""
    size = len(drawn.piece_depths)
    assert len(drawn.words.split()) == len(drawn.parents) == len(drawn.pieces)
    assert [len(row) for row in drawn.relations] == [size] * size
    for i in range(size):
        for j in range(size):
            assert drawn.relations[i][j] == -drawn.relations[j][i]


@pytest.mark.parametrize("tree", ["CHAIN", "STAR"])
def test_long_trees(tree):
    parents = getattr(hand_drawn, f"{tree}_PARENTS")
    relation = getattr(hand_drawn, f"{tree.lower()}_relation")
    pieces = [1] * hand_drawn.LONG
    depths = getattr(hand_drawn, f"{tree}_PIECE_DEPTHS")
    assert reference.depths(parents) == getattr(hand_drawn, f"{tree}_DEPTHS")
    assert reference.piece_depths(parents, pieces) == depths
    size = range(hand_drawn.LONG + 1)
    expected = [[relation(i, j) for j in size] for i in size]
    assert reference.relations(parents, pieces) == expected


def test_a_cycle_is_no_tree():
    with pytest.raises(ValueError, match="no root"):
        reference.depths([0, 3, 2])


@pytest.mark.parametrize(
    "x, clipped", [(-17, -16), (-16, -16), (-1, -1), (0, 0), (16, 16), (399, 16)]
)
def test_clip(x, clipped):
    assert reference.clip(x, 16) == clipped
    assert reference.tree_index(x, 16) == clipped + 16


def test_signs_run_opposite_ways():
    """The next piece is +1 in the sequence; in a tree the earlier of two is minus."""
    assert reference.relative_indices(3, 1) == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    siblings = reference.relations([0, 1, 1], [1, 1, 1])
    assert siblings[1][2] == -2
    assert reference.tree_indices(siblings, 1)[1][2] == 0


def test_sinusoid_by_hand():
    assert reference.sinusoid(0, 6) == [0, 0, 0, 1, 1, 1]
    expected = [math.sin(3), math.sin(3e-4), math.cos(3), math.cos(3e-4)]
    assert reference.sinusoid(3, 4) == pytest.approx(expected)
    expected = [math.sin(2), math.sin(0.02), math.sin(2e-4)]
    expected += [math.cos(2), math.cos(0.02), math.cos(2e-4), 0]
    assert reference.sinusoid(2, 7) == pytest.approx(expected)


@pytest.mark.parametrize("width", [4, 7, 32])
def test_sinusoid_has_fairseqs_frequencies(width):
    fairseq = pytest.importorskip("fairseq.modules.sinusoidal_positional_embedding")
    table = fairseq.SinusoidalPositionalEmbedding.get_embedding(40, width)
    for value in range(40):
        assert table[value].tolist() == pytest.approx(reference.sinusoid(value, width), abs=1e-5)


def test_encoder_positions():
    embedded, sequence = [[1.0, 2.0, 3.0, 4.0]], [[0.5, 0.25, 0.0, -1.0]]
    tree = [math.sin(2), math.sin(2e-4), math.cos(2), math.cos(2e-4)]

    def found(mode, **weights):
        return reference.encoder_positions(embedded, sequence, [2], mode, **weights).tolist()[0]

    assert found("none") == embedded[0]
    assert found("sequence") == [1.5, 2.25, 3.0, 3.0]
    expected = [1 + tree[0], 2 + tree[1], 3 + tree[2], 4 + tree[3]]
    assert found("tree_depth") == pytest.approx(expected)
    expected = [1.5 + tree[0], 2.25 + tree[1], 3 + tree[2], 3 + tree[3]]
    assert found("add") == pytest.approx(expected)
    # W takes sequence 0, tree 0, their difference, nothing; b counts once
    weight = [[0.0] * 8 for _ in range(4)]
    weight[0][0] = weight[1][4] = weight[2][0] = 1.0
    weight[2][4] = -1.0
    expected = [
        1 + math.tanh(0.5),
        2 + math.tanh(tree[0]),
        3 + math.tanh(0.5 - tree[0]),
        4 + math.tanh(0.75),
    ]
    fused = found("nonlinear", weight=weight, bias=[0.0, 0.0, 0.0, 0.75])
    assert fused == pytest.approx(expected)
    with pytest.raises(ValueError, match="unknown mode"):
        found("sum")


# Two pieces, width 1, r = 1, so that c = [[1, 2], [0, 1]]. The scores are
# s_00 = 1 (0 + 0) = 0, s_01 = 1 (0 + log 3): weights 1/4, 3/4;
# s_10 = s_11 = 0 (the query is 0): weights 1/2, 1/2. Then
# o_0 = 1/4 (1 + 20) + 3/4 (5 + 30) = 31.5,  o_1 = 1/2 (1 + 10) + 1/2 (5 + 20) = 18.
KEYS, VALUES = [[7.0], [0.0], [math.log(3)]], [[10.0], [20.0], [30.0]]
SMALL = ([[1.0], [0.0]], [[0.0], [0.0]], [[1.0], [5.0]])


def test_attention_by_hand():
    term = (reference.relative_indices(2, 1), KEYS, VALUES)
    o, a = reference.relation_aware_attention(*SMALL, [term])
    assert a.flatten().tolist() == pytest.approx([0.25, 0.75, 0.5, 0.5])
    assert o.flatten().tolist() == pytest.approx([31.5, 18])


def test_two_terms_add_up():
    """Sequence and tree at once; the first piece is the parent of the second."""
    sequence = reference.relative_indices(2, 1)  # [[1, 2], [0, 1]]
    tree = reference.tree_indices([[0, -1], [1, 0]], 1)
    assert tree == [[1, 0], [2, 1]]
    tree_keys, tree_values = [[math.log(3)], [0.0], [7.0]], [[1000.0], [100.0], [0.0]]
    o, a = reference.relation_aware_attention(
        *SMALL, [(sequence, KEYS, VALUES), (tree, tree_keys, tree_values)]
    )
    # s_01 = 2 log 3: weights 1/10, 9/10
    # o_0 = 1/10 (1 + 20 + 100) + 9/10 (5 + 30 + 1000)
    # o_1 = 1/2 (1 + 10 + 0) + 1/2 (5 + 20 + 100)
    assert a.flatten().tolist() == pytest.approx([0.1, 0.9, 0.5, 0.5])
    assert o.flatten().tolist() == pytest.approx([943.6, 68])


def test_what_is_not_allowed_has_no_weight():
    term = (reference.relative_indices(2, 1), KEYS, VALUES)
    allowed = [[False, True], [False, False]]
    o, a = reference.relation_aware_attention(*SMALL, [term], allowed)
    assert a.tolist() == [[0, 1], [0, 0]]
    assert o.flatten().tolist() == pytest.approx([35, 0])


def test_scores_are_divided_by_the_root_of_the_width():
    q, k = [[1.0] * 4], [[math.log(3) / 2] * 4, [0.0] * 4]  # scores log 3 and 0
    _, a = reference.relation_aware_attention(q, k, [[0.0], [0.0]], [])
    assert a.flatten().tolist() == pytest.approx([0.75, 0.25])


WIDTH, HEADS, PIECES, R = 6, 2, 4, 2


def random_numbers(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_projections():
    names = ["q_proj", "k_proj", "v_proj", "out_proj"]
    return {
        name: (random_numbers(WIDTH, WIDTH, seed=n), random_numbers(WIDTH, seed=9 + n))
        for n, name in enumerate(names)
    }


def test_multi_head_without_terms_is_torchs():
    x, projections = random_numbers(PIECES, WIDTH, seed=20), random_projections()
    y, a = reference.shaw_multi_head(x, projections, HEADS, [[]] * HEADS)
    torchs = torch.nn.MultiheadAttention(WIDTH, HEADS, dtype=torch.float64)
    three = ["q_proj", "k_proj", "v_proj"]
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([projections[n][0] for n in three]))
        torchs.in_proj_bias.copy_(torch.cat([projections[n][1] for n in three]))
        torchs.out_proj.weight.copy_(projections["out_proj"][0])
        torchs.out_proj.bias.copy_(projections["out_proj"][1])
    expected, weights = torchs(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(torch.stack(a), weights)


def test_multi_head_terms_go_to_their_own_head():
    x, projections = random_numbers(PIECES, WIDTH, seed=20), random_projections()
    tables = random_numbers(2, 2 * R + 1, WIDTH // HEADS, seed=21)
    term = (reference.relative_indices(PIECES, R), *tables)
    _, plain = reference.shaw_multi_head(x, projections, HEADS, [[], []])
    _, second = reference.shaw_multi_head(x, projections, HEADS, [[], [term]])
    _, shared = reference.shaw_multi_head(x, projections, HEADS, [[term]] * HEADS)
    torch.testing.assert_close(second[0], plain[0])
    torch.testing.assert_close(second[1], shared[1])
    assert not torch.allclose(second[1], plain[1])
    assert not torch.allclose(shared[0], plain[0])


def test_reference_is_differentiable():
    x, projections = random_numbers(PIECES, WIDTH, seed=20), random_projections()
    tables = random_numbers(2, 2 * R + 1, WIDTH // HEADS, seed=21).requires_grad_()
    term = (reference.relative_indices(PIECES, R), tables[0], tables[1])
    y, _ = reference.shaw_multi_head(x, projections, HEADS, [[term]] * HEADS)
    y.square().sum().backward()
    assert torch.isfinite(tables.grad).all() and tables.grad.abs().min() > 0
