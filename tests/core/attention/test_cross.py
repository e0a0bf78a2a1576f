"""Mechanisms in cross-attention give what the equations' loops give (reference_mechanisms)."""

import pytest
import torch
from test_mechanisms import D, check_same_gradients, parts, projections, random_brackets

from fairseq_posattn.core.attention import MECHANISMS, CrossContext, CrossSpecification, describe
from fairseq_posattn.core.attention.registry import safe_across
from fairseq_posattn.core.attention.sample_batch import WIDTH, random_tree
from fairseq_posattn.core.attention.tree_walk import alignment_of
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.testing import across
from fairseq_posattn.testing.layer import HEADS, SHAPE, attention
from support import reference_mechanisms as slow

SPECIFICATIONS = [
    "",
    *("window(size=1)", "window(size=3)", "window(size=1, ratio=0.5)", "window(size=3, ratio=1.4)"),
    *("window(size=31)", "window(size=3, heads=0|3)", "window(size=3, across=3, ratio=0.7)"),
    "window(size=1, across=3, heads=0|2)",
    *("gaussian", "gaussian(ratio=0.7)", "gaussian(ratio=1.5, heads=2)"),
    *("local_hard(reach=1)", "local_hard(reach=2, heads=1|2)", "local_soft"),
    *("temperature", "temperature(heads=0|1)"),
    *("tree_depth_bias", "tree_depth_bias(max=1)", "tree_depth_bias(max=2, heads=1|3)"),
    "window(size=3, across=3) + temperature + gaussian(ratio=1.4) + tree_depth_bias(max=2)",
    "local_hard(reach=2) + local_soft + tree_depth_bias + temperature(heads=1)",
    "window(size=5, ratio=0.5, heads=0|1) + local_hard(reach=2, heads=2|3)",
    "tree_walk",
    "tree_walk(follow=true)",
    "temperature + tree_walk + gaussian(ratio=0.7, heads=1|2) + window(size=5, heads=2|3)",
]
LENGTHS = [(1, 1), (7, 4), (4, 7), (6, 6), (1, 6), (5, 1)]  # of the source and of the target


def pair(source, target, seed=5):
    """Return a pair without padding, and its tree."""
    tree = random_tree(source - 1, seed)
    words, parents = (torch.tensor([part]).long() for part in (tree[0], tree[1] or [0]))
    generator = torch.Generator().manual_seed(source + 10 * target)
    x, y = (
        torch.randn(n, 1, WIDTH, dtype=torch.double, generator=generator) for n in (source, target)
    )
    real = (torch.ones(1, n, dtype=torch.bool) for n in (source, target))
    return across.Pairs(x, y, *real, across.SourceTree(words, parents)), tree


def loops(module, batch, tree):
    depths = None if batch.brackets is None else batch.brackets[0].tolist()
    given = projections(module), HEADS, parts(module, tree, depths), batch.x[:, 0]
    return slow.multi_head(batch.y[:, 0], *given)


def equal_to_loops(module, batch, tree):
    """Compare output and weights with those of the loops; return both outputs."""
    expected, expected_weights = loops(module, batch, tree)
    out, weights = batch.attend(module, need_weights=True)
    torch.testing.assert_close(out[:, 0], expected)
    torch.testing.assert_close(weights[0], expected_weights)
    torch.testing.assert_close(batch.attend(module)[0][:, 0], expected)  # the fused kernel
    return out[:, 0], expected


@pytest.mark.long(but=[f"{spec}-{pair}" for spec in SPECIFICATIONS for pair in LENGTHS[1:3]])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_cross_attention_equals_the_loops(specification, lengths):
    batch, tree = pair(*lengths)
    module = attention(specification, seed=3, cross=True)
    equal_to_loops(module, batch, tree)


@pytest.mark.parametrize("specification", SPECIFICATIONS[1:])
def test_padding_and_steps_change_nothing(specification):
    """The contract tests only what the classes name as their examples."""
    across.crossing_is_the_same_in_a_batch_and_in_steps(specification)
    across.crossing_takes_either_way(specification)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("specification", ["tree_walk", "tree_walk(follow=true)"])
def test_a_walk_along_any_brackets_equals_the_loops(specification, seed):
    module = attention(specification, seed, cross=True)
    batch, tree = pair(7, 12, seed)
    batch.brackets = torch.tensor([slow.open_brackets(random_brackets(seed)[:12].ljust(12, "a"))])
    check_same_gradients(module, equal_to_loops(module, batch, tree))


@pytest.mark.parametrize("brackets", [None, torch.tensor([[0, 1, 2, 1, 0]])])
def test_where_the_layers_look_is_told_for_each_written_piece(brackets):
    """It is the geometric mean of what head 0 sees in the next step."""
    batch, _ = pair(6, 5)
    padding = ~batch.real_source, ~batch.real_target
    ctx = CrossContext.between(*padding, tree=batch.tree, brackets=brackets)
    looks = []
    for seed in (1, 2):
        module = attention("tree_walk", seed, cross=True)
        k, v = (module.split(projection(batch.x)) for projection in (module.k_proj, module.v_proj))
        q = module.split(module.q_proj(batch.y))
        looks.append(module.attend(batch.y, q, k, v, ctx, True)[1][0, 0])
    found = alignment_of(ctx.looks)[0]
    for row, step in enumerate((1, 2, 3, 4, 4)):
        torch.testing.assert_close(found[row], (looks[0][step] * looks[1][step]).sqrt())


def test_head_0_follows_the_layer_below():
    """With follow=true, it prefers words near the one at which that layer looked in step p."""
    batch, tree = pair(6, 5)
    module = attention("tree_walk(follow=true)", cross=True)
    below = torch.rand(1, 5, 6, dtype=torch.double).softmax(dim=-1)
    (walk,) = of_loops = parts(module, tree)
    walk.below = [dict(enumerate(row)) for row in below[0]]
    expected, _ = slow.multi_head(
        batch.y[:, 0], projections(module), HEADS, of_loops, batch.x[:, 0]
    )
    ctx = CrossContext.between(~batch.real_source, ~batch.real_target, tree=batch.tree)
    ctx.looks.append(below)
    k, v = (module.split(projection(batch.x)) for projection in (module.k_proj, module.v_proj))
    q = module.split(module.q_proj(batch.y))
    torch.testing.assert_close(module.attend(batch.y, q, k, v, ctx)[0][:, 0], expected)


@pytest.mark.parametrize("specification", SPECIFICATIONS[-6:])
def test_gradients_equal_those_of_the_loops(specification):
    batch, tree = pair(6, 5)
    module = attention(specification, cross=True)
    check_same_gradients(module, (batch.attend(module)[0][:, 0], loops(module, batch, tree)[0]))
    named = [(name, p.grad) for name, p in module.named_parameters() if name != "k_proj.bias"]
    assert all(grad.abs().max() > 1e-9 for _, grad in named)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "specification", [s for s in SPECIFICATIONS if s and "local_hard" not in s]
)
def test_half_precision(specification, dtype):
    """local_hard is left out: a key at the edge of its window may move to the other side."""
    if dtype == torch.float16 and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    batch = across.pairs()
    module, real = attention(specification, cross=True), batch.real_target.T
    expected = batch.attend(module)[0][real].float()
    batch.x, batch.y = batch.x.to(dtype), batch.y.to(dtype)
    for need_weights in (False, True):
        out = batch.attend(module.to(dtype), need_weights=need_weights)[0]
        assert out.dtype == dtype
        torch.testing.assert_close(out[real].float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_a_source_of_padding_only_gives_no_nan(specification):
    batch = across.pairs()
    batch.real_source = batch.real_source.clone()
    batch.real_source[1] = False
    batch.tree.words[1] = -1
    module = attention(specification, cross=True)
    out, weights = batch.attend(module, need_weights=True)
    assert (weights[1] == 0).all()
    torch.testing.assert_close(out[:, 1], module.out_proj.bias.expand_as(out[:, 1]))
    torch.testing.assert_close(batch.attend(module)[0], out)


# the diagonal


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.7, 1, 1.1, 1.5, 2.5, 7])
def test_the_diagonal(ratio):
    target = torch.zeros(2, 40, dtype=torch.bool)
    target[1, :5] = True  # padding before the target
    source = torch.zeros(2, 30, dtype=torch.bool)
    source[1, :9] = True
    ctx = CrossContext.between(source, target)
    for row, (count, length, start) in enumerate([(40, 30, 0), (35, 21, 5)]):
        expected = [slow.diagonal(i, length, ratio) for i in range(count)]
        assert ctx.diagonal(ratio)[row, start:].tolist() == expected
        offsets = ctx.from_diagonal(ratio)[row, 0, start:, -length:]
        assert offsets.tolist() == [[j - c for j in range(length)] for c in expected]


@pytest.mark.parametrize("name", ["window(size=3", "gaussian("])
def test_layers_with_other_ratios_share_a_context(name):
    """What the context keeps for all layers must name the ratio."""
    batch, _ = pair(9, 12)
    ctx = CrossContext.between(~batch.real_source, ~batch.real_target)
    alone, together = [], []
    for ratio in (0.5, 1.0, 1.5):
        options = ", ".join(filter(None, [name.partition("(")[2], f"ratio={ratio}"]))
        module = attention(f"{name.partition('(')[0]}({options})", cross=True)
        q, k, v = (
            module.split(projection(z))
            for projection, z in zip(
                (module.q_proj, module.k_proj, module.v_proj),
                (batch.y, batch.x, batch.x),
                strict=True,
            )
        )
        together.append(module.attend(batch.y, q, k, v, ctx)[0])
        alone.append(batch.attend(module)[0])
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(alone[0], alone[1])


@pytest.mark.parametrize("name", ["local_hard", "local_soft"])
@pytest.mark.parametrize("left", [False, True])
def test_predicted_centres_count_real_pieces_only(name, left):
    module, batch = attention(name, cross=True), across.pairs(left)
    mechanism = module.mechanisms[name]
    mechanism.watching = True
    batch.attend(module)
    seen = mechanism.diagnostics()["centre minus query"]
    expected = torch.zeros_like(seen)
    for row in range(len(batch.real_target)):
        count = int(batch.real_target[row].sum())
        batch.alone(row).attend(module)
        expected += count * mechanism.diagnostics()["centre minus query"]
    torch.testing.assert_close(seen, expected / batch.real_target.sum())


def test_columns_have_no_distance():
    ctx = CrossContext.between(*torch.zeros(2, 1, 3, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"use ctx\.from_diagonal"):
        _ = ctx.distances


def test_as_many_targets_as_sources_take_no_blockwise_way():
    """The fast way of a window is for self-attention; here its length would be enough for it."""
    module = attention("window(size=3)", cross=True)
    batch, _ = pair(200, 200)
    batch.real_target[:, :3] = False  # so that the diagonal is another one
    weights = batch.attend(module, need_weights=True)[0]
    torch.testing.assert_close(batch.attend(module)[0], weights)


# the specification


def test_what_may_stand_there():
    wanted = {"window", "gaussian", "local_hard", "local_soft", "temperature"}
    assert safe_across().keys() == {*wanted, "tree_depth_bias", "tree_walk"}
    assert SHAPE.head_width == D


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - safe_across().keys()))
def test_others_are_refused(name):
    with pytest.raises(SpecificationError) as refusal:
        CrossSpecification(f"gaussian + {name}")
    reason = (
        "acts before or after"
        if name in ("block", "cnn", "tree_gcn")
        else "relates pieces of the same"
    )
    assert f"'{name}' " in str(refusal.value) and reason in str(refusal.value)
    assert f"--cross-attention takes: {', '.join(sorted(safe_across()))}" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("window", "window(size=11, across=1, ratio=1.0)"),
        ("gaussian(ratio=1.2, heads=1)@0-2", "gaussian(ratio=1.2, heads=1)@0-2"),
        ("temperature + local_hard@1", "temperature + local_hard(reach=10)@1"),
    ],
)
def test_canonical_form(text, canonical):
    assert str(CrossSpecification(text)) == str(CrossSpecification(canonical)) == canonical


@pytest.mark.parametrize("name", ["window", "gaussian"])
@pytest.mark.parametrize("ratio", ["0", "-1", "inf", "nan"])
def test_a_ratio_that_leads_nowhere_is_refused(name, ratio):
    with pytest.raises(SpecificationError, match=r"ratio=.*: expected a number"):
        CrossSpecification(f"{name}(ratio={ratio})")


def test_help_says_what_the_ratio_means():
    text = describe("cross")
    assert "--cross-attention" in text and text.count("ratio=1.0") == 2
    assert "ratio" not in describe("encoder") + describe("decoder")


def test_labels_do_not_reach_the_decoder(monkeypatch):
    """A class of one's own that reads labels is refused, rather than fail in the first batch."""

    class Labelled(MECHANISMS["tree_depth_bias"]):
        name = "labelled"
        needs_labels = ("relations",)

    monkeypatch.setitem(MECHANISMS, "labelled", Labelled)
    assert "labelled" not in safe_across()
    with pytest.raises(SpecificationError, match="reads word labels, which a decoder does not"):
        CrossSpecification("labelled")
