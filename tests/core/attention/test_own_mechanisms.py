"""Four mechanisms of one's own give what loops from their equations give."""

import math
import sys
from importlib import import_module

import pytest
import torch

from fairseq_posattn.core.attention import AttentionShape
from fairseq_posattn.core.attention.sample_batch import context, inputs, random_tree
from fairseq_posattn.testing.layer import HEADS, attention
from support import own_classes
from support import reference_mechanisms as slow
from support.commands import ROOT
from support.reference import one_based, word_of_pieces


@pytest.fixture(autouse=True, scope="module")
def own():
    """The modules of tests/own_mechanisms, registered for the tests of this file."""
    names = ("alibi", "t5_bias", "rope", "tree_window")
    with own_classes.restored():
        sys.path.insert(0, str(ROOT / "tests/own_mechanisms"))
        yield {name: import_module(name) for name in names}


# the loops


class Alibi(slow.Part):
    slopes: list

    def added(self, q, h, i):
        return [-self.slopes[h] * abs(i - j) for j in range(len(q[h]))]


class T5Bias(slow.Part):
    table: torch.Tensor
    furthest: int

    def added(self, q, h, i):
        side = self.table.size(1) // 2
        rows = [
            t5_bucket(abs(j - i), side, self.furthest) + side * (j > i) for j in range(len(q[h]))
        ]
        return [self.table[h, row] for row in rows]


def t5_bucket(distance, count, furthest):
    """Return the bucket of one side, computed by whole numbers: (n / e)^g >= (furthest / e)^m."""
    exact = count // 2
    if distance < exact:
        return distance
    grown = count - exact
    steps = [m for m in range(1, grown) if distance**grown * exact**m >= furthest**m * exact**grown]
    return exact + len(steps)


class TreeWindow(slow.Part):
    edges: int
    parents: list
    pieces: list

    def allowed(self, q, h, i):
        words = word_of_pieces(self.pieces)
        return [self.near(words, i, j) for j in range(len(q[h]))]

    def near(self, words, i, j):
        if i >= len(words) or j >= len(words):  # end of sentence
            return True
        one, other = (path_up(self.parents, words[x]) for x in (i, j))
        common = next(word for word in one if word in other)
        return one.index(common) + other.index(common) <= self.edges


def path_up(parents, word):
    """The word, its parent, and so on up to the root; words count from 0, parents from 1."""
    path = [word]
    while parents[path[-1]]:
        path.append(parents[path[-1]] - 1)
    return path


# the comparison


def projections(module):
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    return {name: (getattr(module, name).weight, getattr(module, name).bias) for name in names}


def compare(specification, part_of, pieces):
    """Compare a sentence's output and weights, and its output behind padding, with the loops."""
    module, tree = attention(specification), random_tree(pieces, 5)
    [mechanism] = module.mechanisms.values()
    ctx = context([tree])
    x = inputs([tree], ctx)
    part = part_of(mechanism, *one_based(tree))
    expected, weights = slow.multi_head(x[:, 0], projections(module), HEADS, [part])
    out, found = module.with_weights(x, ctx)
    torch.testing.assert_close(out[:, 0], expected)
    torch.testing.assert_close(found[0], weights)
    trees = [random_tree(pieces + 2, 1), tree]
    ctx = context(trees, left=True)
    batch = inputs(trees, ctx, left=True)
    batch[2:, 1] = x[:, 0]
    torch.testing.assert_close(module.output(batch, ctx)[2:, 1], expected)


PIECES = pytest.mark.parametrize("pieces", [0, 1, 6])  # and end of sentence


@PIECES
@pytest.mark.parametrize("heads", [None, (1, 3)])
def test_alibi(heads, pieces):
    slopes = [2 ** (-8 * h / HEADS) for h in (1, 2, 3, 4)]
    specification = "my_alibi" if heads is None else "my_alibi(heads=1|3)"
    compare(specification, lambda m, *_: Alibi(slopes, heads=heads), pieces)


def test_alibi_with_a_number_of_heads_that_is_no_power_of_two(own):
    """For 12 heads they are what the authors' program prints: eight, then every other one of 16."""
    found = own["alibi"].slopes(12)
    assert found[:8] == [2.0**-n for n in range(1, 9)]
    assert found[8:] == [2.0 ** -(n / 2) for n in (1, 3, 5, 7)]


@PIECES
@pytest.mark.parametrize("options", ["", "(buckets=8, furthest=6)"])
def test_t5_bias(options, pieces):
    compare(f"my_t5_bias{options}", lambda m, *_: T5Bias(m.table, m.options.furthest), pieces)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets_of_any_distance(causal, own):
    """The buckets are those of `t5_bucket` beyond the furthest, too, and on both sides."""
    options = own["t5_bias"].T5BiasOptions()
    mechanism = own["t5_bias"].T5Bias(options, AttentionShape(HEADS, 4))
    distances = torch.arange(-300, 1 if causal else 301)
    side = 32 if causal else 16
    expected = [t5_bucket(abs(d), side, 128) + 16 * (d > 0) for d in distances.tolist()]
    assert mechanism.bucket(distances, causal).tolist() == expected
    # Bucket 16 would be distance 0 on the right: T5 does not use it in an encoder, either.
    assert set(expected) == set(range(32)) - (set() if causal else {16})


@PIECES
@pytest.mark.parametrize("theta", [10_000, 10])
def test_rope(theta, pieces):
    """The score of two pieces has the angles of their distance, pair by pair."""
    module, tree = attention(f"my_rope(theta={theta})"), random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    _, weights = module.with_weights(x, ctx)
    q, k, _ = module.project(x)
    for h in range(HEADS):
        for i in range(len(x)):
            scores = [turned(q[0, h, i], k[0, h, j], j - i, theta) for j in range(len(x))]
            expected = torch.softmax(torch.stack(scores), dim=0)
            torch.testing.assert_close(weights[0, h, i], expected)


def turned(q, k, distance, theta):
    """The scaled product of q with k, each pair of whose features is turned by the distance."""
    width, total = len(q), 0.0
    for m in range(width // 2):
        angle = distance * theta ** (-2 * m / width)
        a, b = k[2 * m], k[2 * m + 1]
        total = total + q[2 * m] * (a * math.cos(angle) - b * math.sin(angle))
        total = total + q[2 * m + 1] * (a * math.sin(angle) + b * math.cos(angle))
    return total / math.sqrt(width)


@PIECES
@pytest.mark.parametrize("edges", [0, 1, 2])
def test_tree_window(edges, pieces):
    specification = f"my_tree_window(edges={edges})"
    compare(specification, lambda m, *tree: TreeWindow(edges, *tree), pieces)


@pytest.mark.parametrize("seed", range(5))
def test_tree_window_of_larger_trees(seed):
    tree = random_tree(12, seed)
    module = attention("my_tree_window(edges=1)")
    ctx = context([tree])
    [mechanism] = module.mechanisms.values()
    found = mechanism.allowed(torch.zeros(1, HEADS, 13, 4), ctx)[0, 0]
    part = TreeWindow(1, *one_based(tree))
    rows = [part.allowed([range(13)], 0, i) for i in range(13)]
    assert found.tolist() == rows
    assert not found.all()
