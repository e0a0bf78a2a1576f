"""Checks of a mechanism's class attributes, options, heads and parameters."""

import copy
import re

import torch

from fairseq_posattn.core.attention import AttentionSpecification, Mechanism
from fairseq_posattn.core.attention.diagnostics import watch
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs, real_pieces
from fairseq_posattn.core.specification import parse
from fairseq_posattn.testing.layer import (
    HEADS,
    SHAPE,
    attention,
    beside_plain,
    fresh,
    mechanisms_of,
    written,
)
from fairseq_posattn.testing.outcomes import (
    MAKING,
    METHODS,
    BrokenPromise,
    NotApplicable,
    expect_same,
    for_some_values,
    is_close,
    largest_difference,
)

SOME_HEADS, OTHER_HEADS = "1|3", "0|2"


def it_can_be_built(specification: str) -> None:
    """Check that it can be built and run, and that its canonical specification can be parsed."""
    AttentionSpecification(specification).check(1, SHAPE)
    ctx = context(TREES)
    attention(specification).output(inputs(TREES, ctx), ctx)
    whole = str(AttentionSpecification(specification))
    if str(AttentionSpecification(whole)) != whole:
        raise BrokenPromise(
            f"'{whole}' after writing and reading it",
            f"'{AttentionSpecification(whole)}'",
            "check the types and defaults of its Options",
        )


@for_some_values
def it_changes_the_output(specification: str) -> None:
    """Check that it changes the output of plain attention, in training and in evaluation."""
    ctx = context(TREES)
    plain, changed = beside_plain(specification)
    x = inputs(TREES, ctx)
    for mode in (True, False):
        one, other = plain.train(mode).output(x, ctx), changed.train(mode).output(x, ctx)
        if not largest_difference(one, other) > 1e-3:
            raise BrokenPromise(
                "an output different from that of plain attention in "
                f"{'training' if mode else 'evaluation'}",
                "the same",
                "if its default options have no effect on sentences of ten pieces, list others in "
                "`examples`",
            )


def with_heads(specification: str, heads: str) -> str:
    """Restrict a specification with a single mechanism to some heads."""
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", specification)
    assert match is not None  # callers pass one term without layers
    options = f"{match[2]}, " if match[2] else ""
    return f"{match[1]}({options}heads={heads})"


def only_its_heads_change(specification: str) -> None:
    """Check that with heads=... it changes only these heads."""
    mechanism = single(specification)
    if not mechanism.accepts_heads:
        raise NotApplicable("it cannot be restricted to some heads (accepts_heads = False)")
    ctx = context(TREES)
    plain, some = beside_plain(with_heads(specification, SOME_HEADS))
    for module in (plain, some):
        assert isinstance(module.out_proj, torch.nn.Linear)
        torch.nn.init.eye_(module.out_proj.weight)
    x = inputs(TREES, ctx)
    out, weights = some.with_weights(x, ctx)
    real = real_pieces(ctx)
    if not is_close(some.output(x, ctx)[real.T], out[real.T]):
        raise BrokenPromise(
            f"the same output with and without weights for heads={SOME_HEADS}",
            "a different output",
            "return tensors for the heads in self.heads",
        )
    expected, expected_weights = plain.with_weights(x, ctx)
    of_weights = (weights - expected_weights).abs().amax((0, 2, 3))
    difference = (out - expected).view(ctx.length, len(TREES), HEADS, -1).abs()
    of_output = difference.transpose(0, 1)[real].amax((0, 2))
    if (of_weights[[0, 2]] >= 1e-12).any() or (of_output[[0, 2]] >= 1e-12).any():
        raise BrokenPromise(f"no change in heads 0 and 2 with heads={SOME_HEADS}", "a change")
    if (of_output[[1, 3]] <= 1e-6).any():
        raise BrokenPromise(f"a change in heads 1 and 3 with heads={SOME_HEADS}", "none")


def layers_do_not_mix_their_options(specification: str) -> None:
    """Check that layers with different options or heads do not share results of ctx.cached."""
    mechanism = single(specification)
    others = [written(mechanism.name, options) for options in mechanism.examples]
    if mechanism.accepts_heads:
        others += [with_heads(specification, OTHER_HEADS), with_heads(specification, SOME_HEADS)]
    x = inputs(TREES, context(TREES))
    for first in others:
        for second in (specification, others[-1]):
            ctx = context(TREES)
            attention(first).output(x, ctx)
            module = attention(second)
            if not is_close(module.output(x, ctx), module.output(x, context(TREES))):
                raise BrokenPromise(
                    f"that {first} in another layer does not change {second}",
                    "a change",
                    "include every option and self.heads in the key of ctx.cached",
                )


def neutral_settings_are_plain_attention(specification: str) -> None:
    """Check that with its neutral options and set_neutral() it is equivalent to plain attention."""
    mechanism = single(specification)
    if mechanism.neutral is None:
        raise NotApplicable("its class has no neutral options (neutral = None)")
    name = mechanism.name
    plain, neutral = beside_plain(written(name, mechanism.neutral))
    own = neutral.mechanisms[name]
    assert isinstance(own, Mechanism)
    own.set_neutral()
    ctx = context(TREES)
    x, real = inputs(TREES, ctx), real_pieces(ctx).T
    expect_same(
        neutral.output(x, ctx)[real],
        plain.output(x, ctx)[real],
        "plain attention with neutral settings",
        "see its `neutral` and `set_neutral`",
        ("set_neutral", *METHODS),
    )


def a_checkpoint_keeps_it(specification: str) -> None:
    """Check that a new layer that loads the parameters of another layer has the same output."""
    ctx = context(TREES)
    x = inputs(TREES, ctx)
    one, other = (
        fresh(specification, seed=1).double().eval(),
        fresh(specification, seed=2).double().eval(),
    )
    state = copy.deepcopy(one.state_dict())
    other.load_state_dict(state)
    if not is_close(one.output(x, ctx), other.output(x, ctx)):
        raise BrokenPromise(
            "the same output after loading a checkpoint",
            "a different output",
            "keep random values in an nn.Parameter or a buffer",
            MAKING,
        )


def single(specification: str) -> type[Mechanism]:
    """Return the mechanism of a single term without layers or heads, or raise NotApplicable."""
    terms = parse(specification)
    if len(terms) != 1 or terms[0].layers is not None or "heads" in terms[0].options:
        raise NotApplicable("only single mechanisms that act in all layers and heads are checked")
    return mechanisms_of(specification)[0]


def diagnostics_are_numbers_of_its_heads(specification: str) -> None:
    """Check that its diagnostics are finite, with one value per head or one for the layer."""
    ctx = context(TREES)
    module = attention(specification)
    watch(module)
    module.output(inputs(TREES, ctx), ctx)
    for mechanism in of_stage(module.mechanisms.values(), Mechanism):
        for name, numbers in mechanism.diagnostics().items():
            if numbers.shape not in ((mechanism.head_count,), ()):
                raise BrokenPromise(
                    f"diagnostics of shape ({mechanism.head_count},), or scalars",
                    f"'{name}' of shape {tuple(numbers.shape)}",
                    "average over all other axes",
                )
            if not torch.isfinite(numbers).all():
                raise BrokenPromise(
                    "finite numbers as diagnostics", f"'{name}' with {numbers.tolist()}", ""
                )
