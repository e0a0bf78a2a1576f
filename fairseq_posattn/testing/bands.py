"""This check sees that a mechanism computes the same beside a window that is computed in bands."""

from __future__ import annotations

from fairseq_posattn.core.attention.pipeline import ON_SCORES, common_reach, of_stage
from fairseq_posattn.core.attention.sample_batch import context, inputs, random_tree, real_pieces
from fairseq_posattn.testing.beside import is_allowed
from fairseq_posattn.testing.broken import NotApplicable, expect_same
from fairseq_posattn.testing.layer import attention, mechanisms_of

WINDOW = "window(size=5)"
# The first is long enough for bands; the others end within a block, and before the first one ends.
LONG_TREES = [random_tree(170, 5), random_tree(90, 6), random_tree(1, 7), random_tree(0, 8)]


def bands_are_the_whole(specification: str) -> None:
    """Check that beside a window the output in bands is that of the whole square of scores."""
    mechanisms = mechanisms_of(specification)
    if not any(m.banded and issubclass(m, ON_SCORES) for m in mechanisms):
        raise NotApplicable("it does not act on scores in bands (banded = False)")
    if all(m.name != "window" for m in mechanisms):
        specification = f"{WINDOW} + {specification}"
        if not is_allowed(specification):
            raise NotApplicable("it cannot stand beside a window")
    module = attention(specification)
    for left in (False, True):
        ctx = context(LONG_TREES, left=left)
        if common_reach(ctx, of_stage(list(module.mechanisms.values()), ON_SCORES)) is None:
            raise NotApplicable("beside it, or with its options, no window is computed in bands")
        x, real = inputs(LONG_TREES, ctx, left), real_pieces(ctx).T
        expected, _ = module.with_weights(x, ctx)
        out = module.output(x, ctx)
        expect_same(
            out[real],
            expected[real],
            "the same output in bands and from the whole square of scores",
            "banded = True promises that it reads pairs of query and key only: ctx.distances, "
            "ctx.tree.distances",
        )
