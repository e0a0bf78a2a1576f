"""What every mechanism must keep, over the whole table: see the list in the test names."""

import itertools
import random

import pytest
import torch

from fairseq_posattn.attention import (
    MECHANISMS,
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    MultiheadSelfAttention,
    pipeline,
)
from fairseq_posattn.positions import SourceTree

WIDTH, HEADS = 16, 4
SHAPE = AttentionShape(HEADS, WIDTH // HEADS)
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
SINGLE = sorted(MECHANISMS)
ALL = SINGLE + [" + ".join(pair) for pair in itertools.combinations(SINGLE, 2)]


def attention(specification: str, seed: int = 0) -> MultiheadSelfAttention:
    torch.manual_seed(seed)
    mechanisms = AttentionSpecification(specification).build(0, SHAPE)
    module = MultiheadSelfAttention(WIDTH, HEADS, mechanisms)
    for parameter in module.mechanisms.parameters():  # away from neutral starts
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def random_tree(pieces: int, seed: int) -> tuple[list[int], list[int]]:
    """words of `pieces` pieces and end of sentence, parents of the words (the root its own)."""
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


def context(trees, length=None, left=False, width=None) -> AttentionContext:
    """Several sentences in one batch, padded on one side to a length."""
    length = length or max(len(words) for words, _ in trees)
    width = width or max(1, *(len(parents) for _, parents in trees))
    words = torch.full((len(trees), length), -1)
    parents = torch.arange(width).repeat(len(trees), 1)
    for row, (word, parent) in enumerate(trees):
        start = length - len(word) if left else 0
        words[row, start : start + len(word)] = torch.tensor(word, dtype=torch.long)
        parents[row, : len(parent)] = torch.tensor(parent, dtype=torch.long)
    real = words >= 0
    return AttentionContext(
        length, words.device, None if real.all() else real, SourceTree(words, parents)
    )


def inputs(trees, ctx, left=False, dtype=torch.double) -> torch.Tensor:
    """T B C: the same numbers for the same sentence, whatever the padding; noise in the padding."""
    x = torch.randn(ctx.length, len(trees), WIDTH, dtype=dtype)
    for row, (words, _) in enumerate(trees):
        start = ctx.length - len(words) if left else 0
        own = torch.Generator().manual_seed(row)
        x[start : start + len(words), row] = torch.randn(
            len(words), WIDTH, dtype=dtype, generator=own
        )
    return x


TREES = [random_tree(9, 1), random_tree(5, 2), random_tree(1, 3), random_tree(0, 4)]


@pytest.mark.parametrize("specification", ALL)
def test_shapes_and_every_parameter_gets_a_gradient(specification):
    ctx = context(TREES)
    module = attention(specification).train()
    out, weights = module(inputs(TREES, ctx), ctx, need_weights=True)
    assert out.shape == (ctx.length, len(TREES), WIDTH)
    assert weights.shape == (len(TREES), HEADS, ctx.length, ctx.length)
    out.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        # the softmax does not see a constant added to all keys
        assert parameter.grad.abs().sum() > 1e-12 or name == "k_proj.bias", name


@pytest.mark.parametrize("specification", ALL)
@pytest.mark.parametrize("left", [False, True])
def test_a_sentence_alone_is_the_same_as_in_a_padded_batch(specification, left):
    module = attention(specification)
    ctx = context(TREES, length=13, left=left)
    together, _ = module(inputs(TREES, ctx, left), ctx)
    for row, tree in enumerate(TREES):
        alone = context([tree])
        x = inputs(TREES, ctx, left)[:, row : row + 1][ctx.real[row]]
        out, _ = module(x, alone)
        torch.testing.assert_close(together[:, row][ctx.real[row]], out[:, 0])


@pytest.mark.parametrize("specification", ALL)
def test_left_padding_is_right_padding(specification):
    module = attention(specification)
    outs = []
    for left in (False, True):
        ctx = context(TREES, left=left)
        out, _ = module(inputs(TREES, ctx, left), ctx)
        outs.append(out.transpose(0, 1)[ctx.real])
    torch.testing.assert_close(*outs)


@pytest.mark.parametrize("specification", ALL)
def test_padding_gets_no_weight(specification):
    ctx = context(TREES, length=12)
    _, weights = attention(specification)(inputs(TREES, ctx), ctx, need_weights=True)
    padding = ~ctx.real[:, None, None, :].expand_as(weights)
    assert (weights[padding] == 0).all()


@pytest.mark.parametrize("specification", ["", *ALL])
def test_rows_with_nothing_allowed_give_zeros_and_finite_gradients(specification):
    trees = [random_tree(4, 1), ([], [])]  # the second sentence is padding throughout
    ctx = context(trees)
    module = attention(specification)
    with torch.no_grad():
        module.out_proj.bias.zero_()
    x = inputs(trees, ctx).requires_grad_()
    out, weights = module(x, ctx, need_weights=True)
    assert (out[:, 1] == 0).all() and (weights[1] == 0).all()
    fast, _ = module(x, ctx)
    torch.testing.assert_close(fast, out)
    out.square().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


@pytest.mark.parametrize("specification", ["", *ALL])
def test_fused_path_is_explicit_path(specification, monkeypatch):
    ctx = context(TREES)
    module = attention(specification)
    x = inputs(TREES, ctx)
    explicit, _ = module(x, ctx, need_weights=True)
    torch.testing.assert_close(module(x, ctx)[0], explicit)
    # the bias alone, without value terms, goes through the fused kernel
    monkeypatch.setattr(pipeline, "ValueTerm", type("Nothing", (), {}))
    torch.testing.assert_close(module(x, ctx)[0], module(x, ctx, need_weights=True)[0])


@pytest.mark.parametrize("name", SINGLE)
def test_heads_changes_those_heads_only(name):
    if not MECHANISMS[name].accepts_heads:
        pytest.skip("acts on all heads")
    ctx = context(TREES)
    plain, some = attention(""), attention(f"{name}(heads=1|3)")
    some.load_state_dict(plain.state_dict(), strict=False)
    for module in (plain, some):
        torch.nn.init.eye_(module.out_proj.weight)
    x = inputs(TREES, ctx)
    out, weights = some(x, ctx, need_weights=True)
    expected, expected_weights = plain(x, ctx, need_weights=True)
    real = ctx.real[:, None, :].expand(-1, HEADS, -1)
    same = (weights - expected_weights).abs().amax(-1)
    assert (same[:, [0, 2]] < 1e-12).all() and (same[real][..., None].max() > 1e-3)
    difference = (out - expected).view(ctx.length, len(TREES), HEADS, -1).abs().amax((0, 3))
    assert (difference[:, [0, 2]] < 1e-12).all()
    assert (difference[:3, [1, 3]] > 1e-6).all()


@pytest.mark.parametrize("specification", ALL)
def test_neutral_parameters_are_plain_attention(specification):
    ctx = context(TREES)
    plain, neutral = attention(""), attention(specification)
    neutral.load_state_dict(plain.state_dict(), strict=False)
    for parameter in neutral.mechanisms.parameters():
        torch.nn.init.zeros_(parameter)
    x = inputs(TREES, ctx)
    torch.testing.assert_close(neutral(x, ctx)[0], plain(x, ctx)[0])


@pytest.mark.parametrize("specification", ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_half_precision_is_close_to_float32(specification, dtype, device):
    if (device, dtype) == ("cpu", torch.float16) and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float)
    expected, _ = module(x, ctx)
    tree = SourceTree(ctx.tree.words.to(device), ctx.tree.parents.to(device))
    there = AttentionContext(ctx.length, torch.device(device), ctx.real.to(device), tree)
    out, _ = module.to(device, dtype)(x.to(device, dtype), there)
    assert out.dtype == dtype
    torch.testing.assert_close(out.cpu().float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("specification", SINGLE)
def test_it_changes_the_output_in_train_and_eval(specification):
    ctx = context(TREES)
    plain, changed = attention(""), attention(specification)
    changed.load_state_dict(plain.state_dict(), strict=False)
    x = inputs(TREES, ctx)
    for mode in (True, False):
        difference = plain.train(mode)(x, ctx)[0] - changed.train(mode)(x, ctx)[0]
        assert difference.abs().max() > 1e-3
