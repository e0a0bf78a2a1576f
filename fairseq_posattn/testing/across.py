"""Checks of mechanisms in cross-attention, and together with other mechanisms in a layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention import AttentionSpecification, CrossContext, SourceTree
from fairseq_posattn.core.attention.pipeline import ON_SCORES, common_reach, of_stage
from fairseq_posattn.core.attention.registry import reason_against_crossing
from fairseq_posattn.core.attention.sample_batch import (
    TREES,
    context,
    inputs,
    random_tree,
    real_pieces,
)
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.testing.batches import (
    a_sentence_is_the_same_in_a_batch,
    shapes_and_gradients_are_right,
)
from fairseq_posattn.testing.layer import SHAPE, Attention, attention, mechanisms_of
from fairseq_posattn.testing.outcomes import BrokenPromise, NotApplicable, expect_same
from fairseq_posattn.testing.paths import the_fused_way_is_the_explicit_way

TARGETS = TREES[::-1]  # the longest source has the shortest target
LOOK = "take positions from ctx.from_diagonal(), ctx.query_positions or ctx.positions"


@dataclass
class Pairs:
    """A batch of sentence pairs.

    The source x has the shape (S, B, C); the target y has the shape (T, B, C).
    """

    x: Tensor
    y: Tensor
    real_source: Tensor  # bool, B S
    real_target: Tensor  # bool, B T
    tree: SourceTree | None
    brackets: Tensor | None = None  # number of open brackets after each target piece, B T

    def attend(
        self,
        module: Attention,
        end: int | None = None,
        queries: int | None = None,
        need_weights: bool = False,
        memory: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output of cross-attention and, if requested, the weights.

        The target is truncated to `end` columns, and the last `queries` of these are the queries.
        By default, all target columns are queries. The output has the shape (Q, B, C).

        memory: a dictionary in which tensors are stored for later steps of incremental decoding.
        """
        brackets = None if self.brackets is None else self.brackets[:, :end]
        padding = ~self.real_source, ~self.real_target[:, :end]
        ctx = CrossContext.between(*padding, queries, self.tree, brackets=brackets)
        ctx.memory, y = memory, self.y[:end][-ctx.queries :]
        q = module.split(module.q_proj(y))
        k, v = (module.split(projection(self.x)) for projection in (module.k_proj, module.v_proj))
        return module.attend(y, q, k, v, ctx, need_weights)

    def alone(self, row: int) -> Pairs:
        """Return one sentence pair of the batch, without padding."""
        source, target, one = self.real_source[row], self.real_target[row], slice(row, row + 1)
        tree = context([TREES[row]]).tree
        return Pairs(
            self.x[source, one],
            self.y[target, one],
            self.real_source[one, source],
            self.real_target[one, target],
            tree,
            None if self.brackets is None else self.brackets[one, target],
        )


def pairs(left: bool = False) -> Pairs:
    """Return a batch of pairs, padded on the left (with brackets) or on the right."""
    both = [context(trees, length=13 + n, left=left) for n, trees in enumerate((TREES, TARGETS))]
    x, y = (inputs(t, ctx, left) for t, ctx in zip((TREES, TARGETS), both, strict=True))
    brackets = both[1].brackets if left else None
    return Pairs(x, y, real_pieces(both[0]), real_pieces(both[1]), both[0].tree, brackets)


def crossing_is_the_same_in_a_batch_and_in_steps(specification: str) -> None:
    """Check that in cross-attention neither padding nor incremental decoding changes an output."""
    require_crossing(specification)
    module = attention(specification, cross=True)
    for left in (False, True):
        batch = pairs(left)
        together = batch.attend(module)[0]
        memory: dict[str, Tensor] = {}
        ends = range(1, len(batch.y) + 1)
        steps = [batch.attend(module, end, 1, memory=memory)[0] for end in ends]
        where = f"with padding {'before' if left else 'after'} it"
        for row in range(len(TREES)):
            real = batch.real_target[row]
            expected = batch.alone(row).attend(module)[0][:, 0]
            same_output(together[real, row], expected, f"in a batch, {where}")
            same_output(torch.cat(steps)[real, row], expected, f"step by step, {where}")


def crossing_takes_either_way(specification: str) -> None:
    """Check that cross-attention ignores padding, and that requesting weights changes nothing."""
    require_crossing(specification)
    module, batch = attention(specification, cross=True), pairs()
    out, weights = batch.attend(module, need_weights=True)
    real = batch.real_target.T
    same_output(batch.attend(module)[0][real], out[real], "without weights")
    assert weights is not None
    if (weights.masked_fill(batch.real_source[:, None, None], 0) != 0).any():
        raise BrokenPromise("zero weights on source padding", "nonzero weights", LOOK)


def same_output(found: Tensor, expected: Tensor, where: str) -> None:
    expect_same(found, expected, f"the same output of cross-attention {where}", LOOK)


def require_crossing(specification: str) -> None:
    """Raise NotApplicable unless all mechanisms can be used in cross-attention."""
    for mechanism in mechanisms_of(specification):
        if reason := reason_against_crossing(mechanism):
            raise NotApplicable(f"{mechanism.name} {reason} (cross_safe = False)")


OTHERS = (  # together they cover most stages
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
        raise NotApplicable("only mechanisms that act in all layers are checked")
    names = {mechanism.name for mechanism in mechanisms_of(specification)}
    for others in OTHERS:
        together = f"{specification} + {others}"
        if names.isdisjoint(m.name for m in mechanisms_of(others)) and is_allowed(together):
            for check in CHECKS:
                try:
                    check(together)
                except BrokenPromise as broken:  # mention the other mechanisms in the message
                    expected = f"{broken.expected} alongside {others}"
                    raise BrokenPromise(
                        expected, broken.found, broken.look, broken.methods
                    ) from None


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
        raise NotApplicable("it does not support banded attention (banded = False)")
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
