"""A head that learns to look at parents: targets, loss and attachment equal plain loops."""

import copy
import math

import pytest
import torch

from fairseq_posattn.core.attention import AttentionContext, AttentionSpecification
from fairseq_posattn.core.attention.sample_batch import TREES, WIDTH, context, inputs, random_tree
from fairseq_posattn.core.attention.supervised import ParentTargets
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.testing.layer import HEADS, SHAPE, attention
from support import reference_mechanisms as slow
from support.reference import one_based

PIECES = ["first", "all"]
MORE = [*TREES, random_tree(12, 7), random_tree(2, 8)]


def targets_by_hand(tree, pieces):
    parents, counts = one_based(tree)
    return slow.parent_targets(parents, counts, pieces == "all")


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("left", [False, True])
def test_targets(pieces, left):
    ctx = context(MORE, 16, left)
    found = getattr(ParentTargets, pieces)(ctx.tree)
    for row, tree in enumerate(MORE):
        length = len(tree[0])
        start = 16 - length if left else 0
        by_hand = targets_by_hand(tree, pieces)
        for column in range(16):
            i = column - start
            expected = by_hand[i] if 0 <= i < length else []
            chosen = found.allowed[row, column].nonzero().flatten().tolist()
            assert chosen == [start + j for j in expected]
            assert bool(found.known[row, column]) == bool(expected)
            if expected:
                share = torch.full((len(expected),), 1 / len(expected))
                torch.testing.assert_close(found.weights[row, column, chosen], share)


def sums_by_hand(weights, tree, pieces):
    """Loss, pieces, right words, words of one head; weights: I x I of real pieces."""
    words = tree[0][:-1]
    parents, _ = one_based(tree)
    loss, count, right, total = 0.0, 0, 0, 0
    for i, chosen in enumerate(targets_by_hand(tree, pieces)):
        if not chosen:
            continue
        loss -= math.log(sum(float(weights[i, j]) for j in chosen))
        count += 1
        if i + 1 < len(words) and words[i + 1] == words[i]:
            continue
        total += 1
        best = max(range(len(weights)), key=lambda j: float(weights[i, j]))
        parent = parents[words[i]] - 1 if parents[words[i]] else words[i]
        right += best < len(words) and words[best] == parent
    return loss, count, right, total


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("scores", ["dot", "biaffine"])
@pytest.mark.parametrize("heads", ["0", "1|3"])
@pytest.mark.parametrize("left", [False, True])
def test_sums(pieces, scores, heads, left):
    module = attention(f"tree_supervised(scores={scores}, pieces={pieces}, heads={heads})@0")
    ctx = context(MORE, 14, left)
    _, weights = module(inputs(MORE, ctx, left), ctx, need_weights=True)
    found = module.take_supervision()
    expected = [0.0] * 4
    for row, tree in enumerate(MORE):
        start = 14 - len(tree[0]) if left else 0
        for head in map(int, heads.split("|")):
            real = weights[row, head, start : start + len(tree[0]), start : start + len(tree[0])]
            own = sums_by_hand(real, tree, pieces)
            expected = [a + b for a, b in zip(expected, own, strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.double))
    assert found[1] > 0 and found[3] > 0
    assert module.take_supervision() is None  # it is given once


def test_gradients_reach_queries_and_keys():
    module = attention("tree_supervised@0").train()
    ctx = context(MORE)
    module(inputs(MORE, ctx), ctx)
    module.take_supervision()[0].backward()
    width = WIDTH // HEADS
    for name in ("q_proj", "k_proj"):
        gradient = getattr(module, name).weight.grad
        assert gradient[:width].abs().sum() > 0 and (gradient[width:] == 0).all()
    assert module.v_proj.weight.grad is None


@pytest.mark.parametrize("pieces", PIECES)
def test_teacher_forcing(pieces):
    """In training with scores=biaffine each piece gets the mean value of its targets."""
    module = attention(f"tree_supervised(scores=biaffine, pieces={pieces})@0")
    torch.nn.init.eye_(module.out_proj.weight)
    torch.nn.init.zeros_(module.out_proj.bias)
    ctx = context(MORE)
    x = inputs(MORE, ctx)
    forced, own = module.train()(x, ctx)[0], module.eval()(x, ctx)[0]
    values = module.v_proj(x)  # T B C
    width = WIDTH // HEADS
    for row, tree in enumerate(MORE):
        for i, chosen in enumerate(targets_by_hand(tree, pieces)):
            if chosen:
                expected = torch.stack([values[j, row, :width] for j in chosen]).mean(dim=0)
                torch.testing.assert_close(forced[i, row, :width], expected)
            else:
                torch.testing.assert_close(forced[i, row], own[i, row])
    torch.testing.assert_close(forced[..., width:], own[..., width:])  # of other heads
    assert not torch.allclose(forced[..., :width], own[..., :width])


@pytest.mark.parametrize("scores", ["dot", "biaffine"])
def test_translation_is_the_same_with_and_without_trees(scores):
    module = attention(f"tree_supervised(scores={scores})@0")
    ctx = context(MORE)
    x = inputs(MORE, ctx)
    with_trees = module(x, ctx)[0]
    module.take_supervision()
    bare = AttentionContext(ctx.length, ctx.device, ctx.real)
    torch.testing.assert_close(module(x, bare)[0], with_trees)
    assert module.take_supervision() is None


def test_a_parent_that_was_cut_off():
    """A word whose parent was cut off has no target, and does not count."""
    tree = ([0, 1, 2], [3, 3, 3, 3])  # words 0 and 1 and the end are left; word 3 is the root
    ctx = context([tree])
    found = ParentTargets.first(ctx.tree)
    assert not found.known.any() and not found.ends.any()
    module = attention("tree_supervised@0")
    module(inputs([tree], ctx), ctx)
    assert module.take_supervision().tolist() == [0, 0, 0, 0]


def test_several_such_heads_of_a_layer_are_counted_together():
    one, two = (attention(f"tree_supervised(heads={heads})@0") for heads in ("0", "0|2"))
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    ctx = context(MORE)
    x = inputs(MORE, ctx)
    one(x, ctx), two(x, ctx)
    first, both = one.take_supervision(), two.take_supervision()
    assert both[1] == 2 * first[1] and both[3] == 2 * first[3] and both[0] > first[0]


@pytest.mark.parametrize("factor", [1, 10])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, factor):
    """Weights too small for half precision have a finite loss and gradient, as in float32."""
    module = attention("tree_supervised@0").float()
    with torch.no_grad():
        module.q_proj.weight *= factor
        module.k_proj.weight *= factor
    half = copy.deepcopy(module).to(dtype)
    ctx = context(MORE)
    x = inputs(MORE, ctx).to(dtype)
    expected, found = supervised_loss(module, x.float(), ctx), supervised_loss(half, x, ctx)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0)
    if factor == 10:
        assert expected > 30  # e^-30 is nothing in float16
    for name in ("q_proj", "k_proj"):
        gradient, own = (getattr(m, name).weight.grad.float() for m in (module, half))
        assert gradient.norm() > 0
        torch.testing.assert_close(own.norm(), gradient.norm(), rtol=0.1, atol=0)
        assert torch.cosine_similarity(own.flatten(), gradient.flatten(), dim=0) > 0.95


def supervised_loss(module, x, ctx):
    """The mean loss of a piece, after its gradient was found."""
    module.train()(x, ctx)
    loss, pieces, _, _ = module.take_supervision()
    mean = loss / pieces
    mean.backward()
    return mean.detach()


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("tree_supervised(scores=cosine)@0", "scores=cosine: expected dot or biaffine"),
        ("tree_supervised@0 + window@0", "'window' hides from head 0 words that 'tree_supervised'"),
        ("tree_supervised(heads=1|2)@0 + window(heads=2|3)@0", "'window' hides from head 2 words"),
        ("tree_supervised@0 + alibi(sides=one_sided)@0", "'alibi' hides from head 0 words"),
        ("tree_supervised@0 + window(across=3)@0", "needs one key per piece, but 'window' "),
    ],
)
def test_refused(specification, message):
    with pytest.raises(SpecificationError) as error:
        AttentionSpecification(specification).check(1, SHAPE)
    assert message in str(error.value)


@pytest.mark.parametrize("beside", ["window(heads=1|2)@0", "alibi@0", "tree_window(heads=3)@0"])
def test_beside_masks_of_other_heads(beside):
    AttentionSpecification(f"tree_supervised@0 + {beside}").check(1, SHAPE)
