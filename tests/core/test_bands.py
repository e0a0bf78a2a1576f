"""Attention within a window costs time and memory linear in the length, whatever acts beside it.

The tests compare what comes out of the bands with the whole square of scores under the mask of the
window.
"""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.core.attention import AttentionContext, pipeline, window
from fairseq_posattn.core.attention.bands import BandedTree, Bands
from fairseq_posattn.core.attention.sample_batch import context, inputs, random_tree, real_pieces
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.testing.layer import attention

TREES = [random_tree(61, 1), random_tree(23, 2), random_tree(1, 3), random_tree(0, 4)]
WITHOUT_TREES = [
    *("relative(max=3)", "relative(max=2, shared_heads=false)", "alibi", "alibi(sides=learnt)"),
    *("t5_bias(buckets=8, max=6)", "gaussian", "direct_relative(t=4)", "temperature + relative"),
    *("disentangled(max=3)", "disentangled(max=40)"),
    *("relative(heads=1|3)", "alibi(heads=0) + relative + gaussian(heads=1|2)"),
]
BESIDE = [
    *WITHOUT_TREES,
    *("tree_relative(max=3)", "tree_distance", "tree_distance(kind=gaussian)", "tree_labels"),
    *("tree_depth_relative", "tree_depth_bias", "tree_window(hops=3)", "tree_distance(heads=2)"),
    *("tree_window(hops=4, direction=up)", "tree_window(hops=4, direction=down) + t5_bias"),
]


@pytest.fixture(autouse=True)
def always_long(monkeypatch):
    """Take the bands for short sentences, too."""
    monkeypatch.setattr(window, "LONG", {"cpu": 0, "cuda": 0})


@pytest.fixture
def whole(monkeypatch):
    """Return a function that takes the output from the whole square of scores."""

    def run(module, x, ctx):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "common_reach", lambda *_: None)
            patch.setattr(pipeline, "fast_path", lambda *_: None)
            return module.output(x, ctx)

    return run


def in_bands(ctx: AttentionContext) -> bool:
    return any(isinstance(made, Bands) for made in ctx.cache.values())


def gradients(module, out, real):
    module.zero_grad()
    out[real].square().sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "left, limits", [(False, "window(size=5)"), (True, "window(size=9, across=3)")]
)
@pytest.mark.parametrize("beside", BESIDE)
def test_output_and_gradients_are_those_of_the_square(beside, left, limits, whole):
    module = attention(f"{limits} + {beside}").train()
    ctx, other = context(TREES, left=left), context(TREES, left=left)
    x, real = inputs(TREES, ctx, left), real_pieces(ctx).T
    out, expected = module.output(x, ctx), whole(module, x, other)
    assert in_bands(ctx) and not in_bands(other)
    torch.testing.assert_close(out[real], expected[real])
    torch.testing.assert_close(gradients(module, out, real), gradients(module, expected, real))


@pytest.mark.parametrize("limits", ["window(size=11)", "window(size=41)"])
@pytest.mark.parametrize("beside", WITHOUT_TREES)
def test_a_decoder_sees_no_later_piece(beside, limits, whole):
    module = attention(f"{limits} + {beside}")
    real = torch.arange(90) < torch.tensor((90, 31))[:, None]
    x = torch.randn(90, 2, 16, dtype=torch.double)
    ctx, other = (AttentionContext(90, x.device, real, causal=True) for _ in range(2))
    out, expected = module.output(x, ctx), whole(module, x, other)
    assert in_bands(ctx)
    torch.testing.assert_close(out[real.T], expected[real.T])


def test_lengths_around_those_of_blocks(whole):
    module = attention("window(size=5) + relative(max=2)")
    for length in (10, 15, 16, 17, 31, 32, 33, 48):
        x = torch.randn(length, 3, 16, dtype=torch.double)
        ctx, other = (AttentionContext(length, x.device) for _ in range(2))
        torch.testing.assert_close(module.output(x, ctx), whole(module, x, other))
        assert in_bands(ctx)


def test_no_square_of_scores_is_made():
    """A square of 20,000 pieces and 4 heads would have 1.6 billion numbers."""
    module = attention("window(size=11) + relative + alibi").float()
    x = torch.randn(20_000, 1, 16)
    ctx = AttentionContext(20_000, x.device)
    with torch.no_grad(), Largest() as largest:
        module.output(x, ctx)
    assert largest.seen < 20_000 * 16 * 40
    tree = SourceTree.of_batch(chain(20_000), torch.ones(1, 20_001, dtype=torch.bool))
    ctx = AttentionContext(20_001, x.device, tree=tree)
    module = attention("window(size=11) + tree_distance + tree_window(hops=3)").float()
    with torch.no_grad(), Largest() as largest:
        module.output(torch.randn(20_001, 1, 16), ctx)
    assert largest.seen < 20_000 * 16 * 40


def chain(words: int) -> torch.Tensor:
    """Return the record of a sentence in which each word's parent is the word before."""
    return torch.stack([torch.arange(words), torch.ones(words, dtype=torch.long)])[:, None]


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """This notes the size of the largest storage that any operation returns."""

    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, torch.Tensor):
                self.seen = max(self.seen, x.untyped_storage().size() // x.element_size())
        return out


def test_what_is_not_banded_takes_the_square():
    for beside in ("convolved_1d", "direct_absolute", "deps_san", "parent_scaled"):
        module = attention(f"window(size=3) + {beside}")
        ctx = context([random_tree(15, 1)])
        module.output(inputs([random_tree(15, 1)], ctx), ctx)
        assert not in_bands(ctx), beside


@pytest.mark.long(ci=True)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.integers(0, 10**6))
def test_pairs_of_a_tree_by_pointers_are_those_by_tables(sizes, seed):
    trees = [random_tree(size, seed + k) for k, size in enumerate(sizes)]
    ctx = context(trees)
    blocks = Bands.of(ctx, 3, len(trees))
    banded, plain = blocks.context.tree, ctx.tree
    assert isinstance(banded, BandedTree)
    count = -(-ctx.length // blocks.block)
    for row, (words, _) in enumerate(trees):
        for i, j in itertools.product(range(len(words) - 1), repeat=2):
            if abs(i - j) <= 3:
                block, query = row * count + i // blocks.block, i % blocks.block
                near = (block, query, j - (i - query) + blocks.reach)
                for name in ("distances", "relations"):
                    assert getattr(banded, name)[near] == getattr(plain, name)[row, i, j]
                for name in ("keys_above", "keys_below"):
                    assert getattr(banded, name)()[near] == getattr(plain, name)()[row, i, j]
