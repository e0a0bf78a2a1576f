"""What every mechanism must keep, over the whole table and over random combinations."""

import random
import re

import pytest
import torch

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionSpecification,
    pipeline,
)
from fairseq_posattn.core.attention.mechanism import ScoreChange, WeightChange
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.testing import (
    CONTRACT,
    HEADS,
    SHAPE,
    TREES,
    WIDTH,
    Attention,
    attention,
    check_mechanism,
    context,
    every_parameter_matters,
    half_precision_is_close,
    inputs,
    steps_are_the_whole,
)

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


@pytest.mark.parametrize("specification", ["", *ALL])
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check, specification):
    check(specification)


@pytest.mark.parametrize("specification", SINGLE)
def test_every_parameter_moves_something(specification):
    every_parameter_matters(specification)


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
    build = AttentionSpecification(f"{specification}(init=identity)").build
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
    half_precision_is_close(specification, dtype, device)


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


@pytest.mark.parametrize(
    "specification", ["", *SAFE, " + ".join(name for name in SAFE if "(" not in name)]
)
def test_step_by_step_is_the_whole_under_a_causal_mask(specification):
    steps_are_the_whole(specification)


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


def test_the_contract_for_mechanisms_of_ones_own():
    """One that keeps it passes; one that lets padding have weight is found."""
    check_mechanism("relative(max=2) + temperature")
    with pytest.raises(AssertionError):
        check_mechanism("gaussian(heads=0) + leaky")


@pytest.fixture(autouse=True, scope="module")
def leaky():
    """A mechanism that gives weight to padding."""

    class Leaky(WeightChange):
        name = "leaky"

        def change_weights(self, weights, q, ctx):
            return weights + 0.1 * weights.flip(0)

    MECHANISMS["leaky"] = Leaky
    yield
    del MECHANISMS["leaky"]
