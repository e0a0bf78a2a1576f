"""Every mechanism of the package keeps the contract, by itself and in random combinations.

The checks stand in fairseq_posattn.testing. The class of a mechanism says what is special to it.
"""

import contextlib
import random

import pytest
import torch

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionSpecification,
    KeyExpansion,
    pipeline,
    register,
)
from fairseq_posattn.core.attention.sample_batch import TREES, WIDTH, context, inputs
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.inspection.picture import make_picture
from fairseq_posattn.inspection.sentence import BUILT_IN
from fairseq_posattn.testing import CONTRACT, NotApplicable, examples_of
from fairseq_posattn.testing.layer import (
    HEADS,
    SHAPE,
    attention,
    fresh,
    has_replacement,
    kernel_calls,
)
from fairseq_posattn.testing.paths import (
    DropsEverything,
    half_precision_is_close,
    steps_are_the_whole,
)
from fairseq_posattn.testing.settings import only_its_heads_change, with_heads
from support import own_classes

HALF = [("cpu", torch.float16)]  # bfloat16 on the CPU is in the contract
if torch.cuda.is_available():
    HALF += [("cuda", torch.float16), ("cuda", torch.bfloat16)]
REPLACED = {"rope", "deps_san", "disentangled"}  # they change scores whatever they have learnt
SINGLE = [spec for name in sorted(MECHANISMS) for spec in examples_of(MECHANISMS[name])]
FIRST = [examples_of(mechanism)[0] for mechanism in MECHANISMS.values()]
EACH = [spec if spec in FIRST else pytest.param(spec, marks=pytest.mark.long) for spec in SINGLE]
# Beside others a parameter may have no effect: before a ReLU, for instance.
OF_ONE = {"every_parameter_matters", "it_works_beside_others", "a_checkpoint_keeps_it"}
# The others move a key at the edge of local_hard's window to its other side in half precision.
WITH_AN_EDGE = {"autocast_is_close", "half_precision_is_close"}


def combinations(count: int) -> list[str]:
    """Return random specifications of two to five mechanisms that are not refused."""
    rng, found = random.Random(1), []
    while len(found) < count:
        text = " + ".join(rng.sample(SINGLE, rng.randint(2, 5)))
        try:
            AttentionSpecification(text).check(1, SHAPE)
        except SpecificationError:
            continue
        found.append(text)
    return found


TOGETHER = [
    spec if number < 12 else pytest.param(spec, marks=pytest.mark.long)
    for number, spec in enumerate(combinations(40))
]
ACROSS = "window(size=5, across=3)"


class Doubled(KeyExpansion):
    """Each key stands twice."""

    name = "doubled"
    copies = 2

    def expand(self, k, v):
        exists = torch.ones(1, k.size(1), 1, 2 * k.size(2), dtype=torch.bool)
        return torch.cat([k, k], dim=2), torch.cat([v, v], dim=2), exists


@pytest.mark.parametrize("specification", EACH)
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check, specification):
    try:
        check(specification)
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("specification", ["", *TOGETHER])
def test_contract_together(specification):
    left_out = OF_ONE | ({"it_changes_the_output"} if not specification else set())
    left_out |= WITH_AN_EDGE if "local_hard" in specification else set()
    if "window(size=1" in specification:  # a piece that sees itself alone needs no tree
        left_out.add("trees_are_read_if_needed")
    for check in CONTRACT:
        if check.__name__ not in left_out:
            with contextlib.suppress(NotApplicable):
                check(specification)


def test_what_the_classes_say_about_themselves():
    """The checks leave out what a class says that it does not promise, so this is counted."""
    never_plain = {name for name, mechanism in MECHANISMS.items() if mechanism.neutral is None}
    assert never_plain == {
        *("block", "directional", "local_soft", "parent_scaled", "brackets", "tree_walk"),
        *REPLACED,
    }
    in_steps = {name for name, mechanism in MECHANISMS.items() if not mechanism.fused}
    assert in_steps == {
        *("relative", "tree_relative", "tree_depth_relative", "tree_labels", "brackets"),
        *("parent_scaled", "deps_san", "tree_supervised"),
        *("local_hard", "convolved_1d", "convolved_2d"),
    }
    whole = {name for name, mechanism in MECHANISMS.items() if not mechanism.accepts_heads}
    assert whole == {"block", "cnn", "local_soft", "tree_gcn", "tree_walk"}


@pytest.mark.parametrize("specification", [f"{ACROSS} + doubled", f"doubled + {ACROSS}"])
def test_two_mechanisms_expand_the_keys(specification):
    """Keys that stand twice get the same weights as before, all together."""
    with own_classes.restored():
        register(Doubled)
        ctx, window, both = context(TREES), attention(ACROSS), attention(specification)
        both.load_state_dict(window.state_dict(), strict=False)
        x, real = inputs(TREES, ctx), ctx.real.T
        torch.testing.assert_close(both.output(x, ctx)[real], window.output(x, ctx)[real])
        expected, found = (module.with_weights(x, ctx)[1] for module in (window, both))
        torch.testing.assert_close(found, expected)
        copies = [row for row in make_picture(specification, BUILT_IN).rows if row.panels[0].blocks]
    assert [len(row.panels[0].blocks) for row in copies] in ([3, 6], [2, 6])


@pytest.mark.parametrize("specification", ["window(size=1)", "local_hard(reach=1)"])
def test_the_smallest_windows_change_their_heads_only(specification):
    only_its_heads_change(specification)


@pytest.mark.parametrize("name", sorted(n for n, m in MECHANISMS.items() if not m.accepts_heads))
def test_some_mechanisms_act_on_all_heads(name):
    with pytest.raises(SpecificationError, match="cannot be limited to some heads"):
        attention(with_heads(name, "1|3"))


@pytest.mark.parametrize("specification", ["convolved_1d", "convolved_2d"])
def test_a_convolution_may_start_as_plain_attention(specification):
    ctx = context(TREES)
    neutral, plain = fresh(f"{specification}(init=identity)").double(), attention("")
    neutral.load_state_dict(plain.state_dict(), strict=False)
    x, real = inputs(TREES, ctx), ctx.real.T
    torch.testing.assert_close(neutral.output(x, ctx)[real], plain.output(x, ctx)[real])


def skip_float16_on_an_old_torch(dtype, device="cpu"):
    if (device, dtype) == ("cpu", torch.float16) and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")


@pytest.mark.parametrize("specification", [*EACH, *TOGETHER])
@pytest.mark.parametrize(("device", "dtype"), HALF)
def test_half_precision_is_close_to_float32(specification, device, dtype):
    skip_float16_on_an_old_torch(dtype, device)
    half_precision_is_close(specification, dtype, device)


def test_step_by_step_is_the_whole_beside_each_other():
    safe = [name for name, mechanism in MECHANISMS.items() if mechanism.causal_safe]
    assert len(safe) > 3
    steps_are_the_whole(" + ".join(safe))


# The attention over blocks has no dropout.
WITH_DROPOUT = [s for s in SINGLE if not has_replacement(attention(s))]


@pytest.mark.parametrize("specification", WITH_DROPOUT)
def test_dropout_stays_on_in_evaluation_where_fairseq_says_so(specification):
    ctx = context(TREES)
    module = attention(specification)
    module.dropout_module = DropsEverything().eval()
    module.dropout_module.apply_during_inference = True
    with kernel_calls() as calls:
        module.output(inputs(TREES, ctx), ctx)
    served = pipeline.is_fused(ctx, list(module.mechanisms.values()))
    assert [call["dropout_p"] for call in calls] == [0.25] * served


@pytest.mark.parametrize(
    ("one", "other"), [("relative", "tree_relative"), ("block(size=2)", "block(size=4)")]
)
def test_layers_share_a_batch_but_not_their_results(one, other):
    ctx = context(TREES)
    attention(one).output(inputs(TREES, ctx), ctx)
    fresh_ctx = context(TREES)
    module, x = attention(other), inputs(TREES, ctx)
    torch.testing.assert_close(module.output(x, ctx), module.output(x, fresh_ctx))


@pytest.mark.parametrize("name", ["convolved_1d", "convolved_2d"])
def test_rows_of_padding_stay_zero_after_a_convolution(name):
    ctx = context(TREES, length=12)
    _, weights = attention(name).with_weights(inputs(TREES, ctx), ctx)
    assert (weights.transpose(1, 2)[~ctx.real] == 0).all()


def fused(module) -> bool:
    return all(mechanism.fused for mechanism in module.mechanisms.values())


@pytest.mark.parametrize("specification", [s for s in SINGLE if fused(attention(s))])
def test_rows_of_padding_stay_finite_in_float16(specification):
    """A row of padding may be forbidden everything; its scores are large here, too large for what
    acts on them in single steps."""
    skip_float16_on_an_old_torch(torch.float16)
    ctx = context(TREES, length=14)
    module = attention(specification).to(torch.float16)
    x = inputs(TREES, ctx, dtype=torch.float16)
    with torch.no_grad():
        module.q_proj.weight.mul_(20)
        module.k_proj.weight.mul_(20)
    assert torch.isfinite(module.output(x, ctx)).all()


def test_no_sum_of_biases_is_lower_than_what_is_forbidden():
    """In float16 numbers end at 65504."""
    skip_float16_on_an_old_torch(torch.float16)
    q = torch.zeros(1, HEADS, 4, WIDTH // HEADS, dtype=torch.float16)
    v = torch.tensor([1.0, 1.0, 1.0, 100.0], dtype=torch.float16)[:, None].expand_as(q)
    low = torch.full((1, 1, 4, 4), 1.9 * pipeline.lowest(torch.float16), dtype=torch.float16)
    mask = torch.tensor([True, True, True, False])[None, None, None]
    assert (pipeline.fused_attention(q, q, v, low, mask, False, 0.0) == 1).all()
