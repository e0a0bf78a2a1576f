"""Checks of a mechanism in combination with other mechanisms in the same layer."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.attention.pipeline import ON_SCORES, common_reach, of_stage
from fairseq_posattn.core.attention.sample_batch import context, inputs, random_tree, real_pieces
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.testing.batches import (
    a_sentence_is_the_same_in_a_batch,
    shapes_and_gradients_are_right,
)
from fairseq_posattn.testing.layer import SHAPE, attention, mechanisms_of
from fairseq_posattn.testing.outcomes import BrokenPromise, NotApplicable, expect_same
from fairseq_posattn.testing.paths import the_fused_way_is_the_explicit_way

OTHERS = (  # together they cover all stages
    "tree_relative(max=2) + temperature",
    "window(size=3, across=3) + gaussian",
    "local_hard(reach=3) + parent_scaled",
    "cnn(kernel=3) + convolved_2d",
    "block(size=3)",
)
CHECKS = (
    shapes_and_gradients_are_right,
    a_sentence_is_the_same_in_a_batch,
    the_fused_way_is_the_explicit_way,
)


def it_works_beside_others(specification: str) -> None:
    """Check that the mechanism fulfils the contract together with others, or rejects them."""
    if "@" in specification:
        raise NotApplicable("this is checked for mechanisms that act in all layers")
    names = {mechanism.name for mechanism in mechanisms_of(specification)}
    for others in OTHERS:
        together = f"{specification} + {others}"
        if names.isdisjoint(m.name for m in mechanisms_of(others)) and is_allowed(together):
            for check in CHECKS:
                check_beside(others, check, together)


def check_beside(others: str, check: Callable[[str], None], together: str) -> None:
    """Run a check; if it fails, mention the other mechanisms in the error message."""
    try:
        check(together)
    except BrokenPromise as broken:
        expected = f"{broken.expected} beside {others}"
        raise BrokenPromise(expected, broken.found, broken.look, broken.methods) from None


def is_allowed(specification: str) -> bool:
    """Return whether the mechanisms of a specification can be combined."""
    try:
        AttentionSpecification(specification).check(1, SHAPE)
    except SpecificationError:
        return False
    return True


WINDOW = "window(size=5)"
# Banded attention splits sentences into blocks. The shorter sentences leave blocks partly or fully
# padded.
LONG_TREES = [random_tree(170, 5), random_tree(90, 6), random_tree(1, 7), random_tree(0, 8)]


def bands_are_the_whole(specification: str) -> None:
    """Check that with a window, banded attention and the full score matrix give the same output."""
    mechanisms = mechanisms_of(specification)
    if not any(m.banded and issubclass(m, ON_SCORES) for m in mechanisms):
        raise NotApplicable("it does not act on scores in bands (banded = False)")
    if all(m.name != "window" for m in mechanisms):
        specification = f"{WINDOW} + {specification}"
        if not is_allowed(specification):
            raise NotApplicable("it cannot be combined with a window")
    module = attention(specification)
    for left in (False, True):
        ctx = context(LONG_TREES, left=left)
        if common_reach(ctx, of_stage(list(module.mechanisms.values()), ON_SCORES)) is None:
            raise NotApplicable("its combination with a window is not computed in bands")
        x, real = inputs(LONG_TREES, ctx, left), real_pieces(ctx).T
        expected, _ = module.with_weights(x, ctx)
        out = module.output(x, ctx)
        expect_same(
            out[real],
            expected[real],
            "the same output in bands and from full scores",
            "banded = True promises that it depends only on pairs of query and key, such as "
            "ctx.distances or ctx.tree.distances",
        )
