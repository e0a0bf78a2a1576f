"""What every mechanism must keep, over the whole table and over random combinations."""

import random
import re

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
from fairseq_posattn.attention.mechanism import ScoreChange, WeightChange
from fairseq_posattn.positions import SourceTree
from fairseq_posattn.specification import SpecificationError

WIDTH, HEADS = 16, 4
SHAPE = AttentionShape(HEADS, WIDTH // HEADS, max_positions=16)
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
CHANGED = {  # options under which a mechanism acts on short sentences too, and its variants
    "block": ["block(size=3)"],  # by default the size of a block depends on the batch
    "cnn": ["cnn(kernel=3)", "cnn(layers=1, separable=false)"],
    "direct_relative": [
        "direct_relative",
        "direct_relative(t=3)",
        "direct_relative(symmetric=true)",
    ],
    "directional": ["directional", "directional(strict=true)"],
    "local_hard": ["local_hard(reach=2)"],
    "relative": ["relative", "relative(max=2, shared_heads=false)"],
    "window": ["window(size=3)", "window(size=1, across=3)", "window(size=5, across=3)"],
}
SINGLE = [spec for name in sorted(MECHANISMS) for spec in CHANGED.get(name, [name])]
FUSED = {"window", "directional", "gaussian", "local_soft", "direct_absolute", "direct_relative"}
FUSED |= {"temperature", "block", "cnn"}


def combinations(count: int) -> list[str]:
    """Random specifications of two to five mechanisms that are not refused."""
    rng, found = random.Random(1), []
    while len(found) < count:
        text = " + ".join(rng.sample(SINGLE, rng.randint(2, 5)))
        try:
            AttentionSpecification(text).check(1, SHAPE)
        except SpecificationError:
            continue
        found.append(text)
    return found


ALL = SINGLE + combinations(40)


class Attention(MultiheadSelfAttention):
    """With what stands before it in its layer."""

    def forward(self, x, ctx, need_weights=False):
        return super().forward(self.before(x, ctx), ctx, need_weights)


def attention(specification: str, seed: int = 0) -> Attention:
    torch.manual_seed(seed)
    mechanisms = AttentionSpecification(specification).build(0, SHAPE)
    module = Attention(WIDTH, HEADS, mechanisms)
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


UNSEEN = ("k_proj.bias", "pooling.bias")  # a softmax does not see what is added to all its scores


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
        if specification in SINGLE and not name.endswith(UNSEEN):
            assert parameter.grad.abs().sum() > 1e-12, name


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
    assert (weights[1] == 0).all()
    assert "block" in specification or (out[:, 1] == 0).all()  # block: its gates let x through
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
    real = ctx.real.T
    torch.testing.assert_close(module(x, ctx)[0][real], explicit[real])
    # the bias alone, without value terms, goes through the fused kernel
    monkeypatch.setattr(pipeline, "ValueTerm", type("Nothing", (), {}))
    monkeypatch.setattr(pipeline, "NOT_FUSED", (ScoreChange, WeightChange))
    explicit, _ = module(x, ctx, need_weights=True)
    torch.testing.assert_close(module(x, ctx)[0][real], explicit[real])


@pytest.mark.parametrize("specification", SINGLE)
def test_the_fused_kernel_serves_what_needs_no_weights(specification, monkeypatch):
    calls = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def counted(*args, **kwargs):
        calls.append(args)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    ctx = context(TREES)
    attention(specification)(inputs(TREES, ctx), ctx)
    strict = "strict" in specification  # rows that see nothing
    assert bool(calls) == (specification.split("(")[0] in FUSED and not strict)


def with_heads(specification: str, heads: str) -> str:
    """window(size=3) -> window(size=3, heads=1|3)"""
    name, options = re.fullmatch(r"(\w+)(?:\((.*)\))?", specification).groups()
    return f"{name}({options + ', ' if options else ''}heads={heads})"


@pytest.mark.parametrize("specification", [*SINGLE, "window(size=1)", "local_hard(reach=1)"])
def test_heads_changes_those_heads_only(specification):
    if not MECHANISMS[specification.split("(")[0]].accepts_heads:
        with pytest.raises(SpecificationError, match="cannot be limited to some heads"):
            attention(with_heads(specification, "1|3"))
        return
    ctx = context(TREES)
    plain, some = attention(""), attention(with_heads(specification, "1|3"))
    some.load_state_dict(plain.state_dict(), strict=False)
    for module in (plain, some):
        torch.nn.init.eye_(module.out_proj.weight)
    x = inputs(TREES, ctx)
    out, weights = some(x, ctx, need_weights=True)
    real = ctx.real.T
    torch.testing.assert_close(some(x, ctx)[0][real], out[real])
    expected, expected_weights = plain(x, ctx, need_weights=True)
    same = (weights - expected_weights).abs().amax(-1)
    assert (same[:, [0, 2]] < 1e-12).all() and same[:, [1, 3]].max() > 1e-3
    difference = (out - expected).view(ctx.length, len(TREES), HEADS, -1).abs()
    difference = difference.transpose(0, 1)[ctx.real].amax((0, 2))  # of each head
    assert (difference[[0, 2]] < 1e-12).all()
    assert (difference[[1, 3]] > 1e-6).all()


NEUTRAL = {  # the parameters with which a mechanism is plain attention; all others: zeros
    "convolved_1d": {"weight": torch.eye(16)[None, None] * torch.tensor([0, 1, 0])[:, None, None]},
    "convolved_2d": {"weight": torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, 0]])},
    "gaussian": {"log_sigma": torch.tensor(30)},
    "temperature": {"gamma": torch.tensor(1)},
}
NEVER = {"block", "directional", "local_soft", "parent_scaled"}  # have no such parameters
WIDE = {"window": "window(size=31)", "local_hard": "local_hard(reach=1000000000)"}


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - NEVER))
def test_neutral_parameters_are_plain_attention(name):
    ctx = context(TREES)
    plain, neutral = attention(""), attention(WIDE.get(name, name))
    neutral.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        for key, parameter in neutral.mechanisms.named_parameters():
            value = NEUTRAL.get(name, {}).get(key.rsplit(".", 1)[-1], torch.tensor(0))
            parameter.copy_(value.expand_as(parameter))
    x = inputs(TREES, ctx)
    real = ctx.real.T
    torch.testing.assert_close(neutral(x, ctx)[0][real], plain(x, ctx)[0][real])


@pytest.mark.parametrize("specification", ["convolved_1d", "convolved_2d"])
def test_a_convolution_may_start_as_plain_attention(specification):
    ctx = context(TREES)
    torch.manual_seed(0)
    build = AttentionSpecification(f"{specification}(start=identity)").build
    neutral = Attention(WIDTH, HEADS, build(0, SHAPE)).double()
    plain = attention("")
    neutral.load_state_dict(plain.state_dict(), strict=False)
    x, real = inputs(TREES, ctx), ctx.real.T
    torch.testing.assert_close(neutral(x, ctx)[0][real], plain(x, ctx)[0][real])


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
    real = ctx.real.T
    near = 0.05 * max(1.0, float(expected[real].detach().abs().max()))
    torch.testing.assert_close(out.cpu().float()[real], expected[real], rtol=0.05, atol=near)


@pytest.mark.parametrize("specification", SINGLE)
def test_it_changes_the_output_in_train_and_eval(specification):
    ctx = context(TREES)
    plain, changed = attention(""), attention(specification)
    changed.load_state_dict(plain.state_dict(), strict=False)
    x = inputs(TREES, ctx)
    for mode in (True, False):
        difference = plain.train(mode)(x, ctx)[0] - changed.train(mode)(x, ctx)[0]
        assert difference.abs().max() > 1e-3


SAFE = [s for s in SINGLE if MECHANISMS[s.split("(")[0]].causal_safe]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(
    "specification", ["", *SAFE, " + ".join(name for name in SAFE if "(" not in name)]
)
def test_step_by_step_is_the_whole_under_a_causal_mask(specification, left):
    """The last pieces as the only queries, as many steps as there are pieces."""
    module = attention(specification)
    whole = context(TREES, left=left)
    whole.causal = True
    x = inputs(TREES, whole, left)
    expected, weights = module(x, whole, need_weights=True)
    assert (weights.triu(1) == 0).all()
    for count in (1, 3):  # queries
        for end in range(count, whole.length + 1):
            real = whole.real[:, :end]
            ctx = AttentionContext(end, x.device, real, queries=count, causal=True)
            q, k, v = module.project(x[:end])
            out, _ = module.attend(x[end - count : end], q[:, :, -count:], k, v, ctx)
            there = real[:, -count:].T
            torch.testing.assert_close(out[there], expected[end - count : end][there])


class Nothing(torch.nn.Module):
    """Drops everything."""

    p = 0.25

    def forward(self, weights):
        return weights * 0


@pytest.mark.parametrize("specification", ["", *SINGLE])
def test_dropout_acts_once_on_all_that_the_values_get(specification, monkeypatch):
    """In single steps its module is applied, the kernel is given its rate; the weights that are
    asked for are those before."""
    ctx = context(TREES)
    module = attention(specification).train()
    x = inputs(TREES, ctx)
    _, weights = module(x, ctx, need_weights=True)
    module.dropout_module = Nothing()
    out, same = module(x, ctx, need_weights=True)
    assert torch.equal(weights, same)
    if "block" not in specification:
        torch.testing.assert_close(out, module.out_proj.bias.expand_as(out))
    rates = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def noted(*args, dropout_p, **kwargs):
        rates.append(dropout_p)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noted)
    module(x, ctx)
    module.eval()(x, ctx)
    module.dropout_module.apply_during_inference = True
    module(x, ctx)
    if "block" not in specification:  # its attention over blocks has no dropout
        assert rates in ([], [0.25, 0.0, 0.25])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("relative(max=2)", "relative(max=5)"),
        ("window(size=3)", "window(size=5)"),
        ("directional", "directional(strict=true)"),
        ("directional(heads=0|1)", "directional(heads=2|3)"),
        ("direct_relative(t=2)", "direct_relative(t=5)"),
        ("block(size=2)", "block(size=4)"),
        ("relative", "tree_relative"),
    ],
)
def test_layers_share_a_batch_but_not_their_options(one, other):
    ctx = context(TREES)
    attention(one)(inputs(TREES, ctx), ctx)
    fresh = context(TREES)
    module, x = attention(other), inputs(TREES, ctx)
    torch.testing.assert_close(module(x, ctx)[0], module(x, fresh)[0])


@pytest.mark.parametrize("name", ["convolved_1d", "convolved_2d"])
def test_rows_of_padding_stay_zero_after_a_convolution(name):
    ctx = context(TREES, length=12)
    _, weights = attention(name)(inputs(TREES, ctx), ctx, need_weights=True)
    assert (weights.transpose(1, 2)[~ctx.real] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("specification", [s for s in SINGLE if s.split("(")[0] in FUSED])
def test_even_rows_of_padding_stay_finite(specification, dtype):
    """A row of padding may be forbidden everything; its scores are large here."""
    if dtype == torch.float16 and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    ctx = context(TREES, length=14)
    module = attention(specification).to(dtype)
    x = inputs(TREES, ctx, dtype=dtype)
    with torch.no_grad():
        module.q_proj.weight.mul_(20)
        module.k_proj.weight.mul_(20)
    out, _ = module(x, ctx)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("specification", ALL)
def test_autocast_is_close_to_float32(specification):
    ctx = context(TREES)
    module = attention(specification).float()
    x = inputs(TREES, ctx, dtype=torch.float).requires_grad_()
    expected, _ = module(x, ctx)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = module(x, ctx)
    out.float().square().sum().backward()
    assert torch.isfinite(x.grad).all()
    real = ctx.real.T
    near = 0.05 * max(1.0, float(expected[real].detach().abs().max()))
    torch.testing.assert_close(out.float()[real], expected[real], rtol=0.05, atol=near)


def test_no_sum_of_biases_sinks_below_what_is_forbidden():
    """In float16, whose numbers end at 65504."""
    if torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    q = torch.zeros(1, HEADS, 4, WIDTH // HEADS, dtype=torch.float16)
    v = torch.tensor([1.0, 1.0, 1.0, 100.0], dtype=torch.float16)[:, None].expand_as(q)
    low = torch.full((1, 1, 4, 4), 1.9 * pipeline.lowest(torch.float16), dtype=torch.float16)
    mask = torch.tensor([True, True, True, False])[None, None, None]
    assert (pipeline.fused_attention(q, q, v, low, mask, False, 0.0) == 1).all()


def test_a_bias_may_be_the_same_for_all_keys_or_queries():
    """Broadcastable, also beside copies of the keys and on some heads."""
    bias = torch.randn(1, HEADS, 5, 1)
    assert pipeline.repeat_keys(bias, 3) is bias
    assert pipeline.spread(torch.ones(5, 5), (0, 2), HEADS).shape == (1, HEADS, 5, 5)
