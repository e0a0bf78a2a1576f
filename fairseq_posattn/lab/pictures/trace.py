"""Follows one sentence through the stages of `core.attention.pipeline` and notes what they do.

Every mechanism is asked through the methods of its stages only, so those of one's own are drawn
like those of the package. What the trace computes on its way is what `attend` computes.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    AttentionContext,
    Mechanism,
    MultiheadSelfAttention,
    PostAttention,
    PreAttention,
    QKVTransform,
    ScoreChange,
    ScoreMask,
    ValueTerm,
    WeightChange,
    attend,
)
from fairseq_posattn.core.attention.heads import repeat_keys, sum_copies
from fairseq_posattn.core.attention.pipeline import (
    BIASES,
    allowed_pairs,
    changed,
    expanded,
    expansions,
    forbidden_to_zero,
    of_stage,
    own_bias,
    scaled_scores,
    softmax_weights,
    spread_bias,
    transformed,
)
from fairseq_posattn.lab.pictures.notes import Notes
from fairseq_posattn.lab.pictures.probes import (
    copy_labels,
    factor,
    value_sizes,
)
from fairseq_posattn.lab.pictures.rows import Kind, Row

WITHOUT = "attention weights without any mechanism, a_ij = softmax_j(q_i·k_j / √d)"
TRANSFORMED = "attention weights from the new queries and keys"
COPIES = "the keys of several heads in one softmax, and which of them a query sees (filled)"
BIAS = "what is added to the scores, b_ij"
SCORES_BEFORE = "scores before the change, s_ij"
SCORE_FACTOR = "what the scores are multiplied by, f_ij"
SCORES_AFTER = "scores after the change"
MASK = "which keys a query may attend to (filled)"
SOFTMAX = "attention weights after the softmax, a_ij"
WEIGHT_FACTOR = "what the weights are multiplied by, f_ij"
NEW_WEIGHTS = "new attention weights"
VALUE_TERM = "size of what is added to the value of each key"
BEFORE = "how strongly each word enters the input of the attention"
REPLACE = "how strongly each word enters the output of the layer"
RESULT = "resulting attention weights"


class Trace:
    """One layer at work on one sentence; its notes grow stage by stage."""

    def __init__(self, layer: MultiheadSelfAttention, x: Tensor, ctx: AttentionContext):
        """x: T 1 C, without padding."""
        self.layer, self.ctx, self.x = layer, ctx, x
        self.mechanisms = of_stage(layer.mechanisms.values(), Mechanism)
        self.notes = Notes(layer.heads, ctx)
        self.notes.weights(None, WITHOUT, self.plain_weights(*layer.project(x)))

    @torch.no_grad()
    def run(self) -> list[Row]:
        """Go through all stages, in the pipeline's order, and return the rows."""
        self.before()
        self.transform()
        self.matrices()
        self.expand()
        self.change_scores()
        self.limit()
        self.change_weights()
        self.value_terms()
        self.replace()
        self.result()
        return self.notes.rows

    # The stages.

    def before(self) -> None:
        for m in of_stage(self.mechanisms, PreAttention):
            self.notes.field(m, BEFORE, partial(m.before, ctx=self.ctx), self.x)
            self.x = m.before(self.x, self.ctx)
        self.q, self.k, self.v = self.layer.project(self.x)

    def transform(self) -> None:
        for m in of_stage(self.mechanisms, QKVTransform):
            self.q, self.k, self.v = transformed(m, self.q, self.k, self.v, self.ctx)
            self.notes.weights(m, TRANSFORMED, self.plain_weights(self.q, self.k, self.v))

    def matrices(self) -> None:
        for m in self.mechanisms:
            for title, matrix in m.matrices(m.on_heads(self.q), self.ctx).items():
                self.notes.add(m, title, kind_of(matrix), matrix)

    def expand(self) -> None:
        """Find the masks before there are more keys, as the pipeline does, then add the keys."""
        self.mask, self.copies = allowed_pairs(self.q, self.ctx, self.mechanisms), 1
        self.single = self.k
        labels = [[""]] * self.layer.heads
        for m in expansions(self.mechanisms):
            labels = [
                [f"{new}, {old}".removesuffix(", ") for new in of_new for old in of_old]
                for of_new, of_old in zip(copy_labels(m, self.k), labels, strict=True)
            ]
            self.copies *= m.copies
            self.k, self.v, self.mask = expanded(m, self.k, self.v, self.mask)
            self.notes.copies(m, COPIES, self.mask, labels)
        self.scores = scaled_scores(self.q, self.k)

    def change_scores(self) -> None:
        for m in of_stage(self.mechanisms, (*BIASES, ScoreChange)):
            if isinstance(m, BIASES):
                of_one = self.q, self.single, self.ctx
                self.notes.add(m, BIAS, Kind.SIGNED, own_bias(m, *of_one))
                self.scores = self.scores + repeat_keys(spread_bias(m, *of_one), self.copies)
            if isinstance(m, ScoreChange):
                self.change_scores_by(m)

    def change_scores_by(self, m: ScoreChange) -> None:
        before = m.on_heads(self.own_copy(self.scores))
        change = partial(m.change_scores, q=m.on_heads(self.q), ctx=self.ctx)
        self.scores = changed(m, m.change_scores, self.scores, self.q, self.ctx, self.copies)
        if (factors := factor(change, before)) is not None:
            self.notes.add(m, SCORE_FACTOR, kind_of(factors), factors)
            return
        self.notes.add(m, SCORES_BEFORE, Kind.SCORES, before)
        self.notes.add(m, SCORES_AFTER, Kind.SCORES, m.on_heads(self.own_copy(self.scores)))

    def limit(self) -> None:
        for m in of_stage(self.mechanisms, ScoreMask):
            self.notes.add(m, MASK, Kind.MASK, m.allowed(m.on_heads(self.q), self.ctx))
        self.weights = softmax_weights(self.scores, self.mask)

    def change_weights(self) -> None:
        for m in of_stage(self.mechanisms, WeightChange):
            self.notes.weights(None, SOFTMAX, sum_copies(self.weights, self.copies))
            self.change_weights_by(m)

    def change_weights_by(self, m: WeightChange) -> None:
        before = m.on_heads(self.own_copy(self.weights))
        change = partial(m.change_weights, q=m.on_heads(self.q), ctx=self.ctx)
        weights = changed(m, m.change_weights, self.weights, self.q, self.ctx, self.copies)
        self.weights = forbidden_to_zero(weights, self.mask)
        if (factors := factor(change, before)) is not None:
            self.notes.add(m, WEIGHT_FACTOR, kind_of(factors), factors)
        else:
            self.notes.weights(m, NEW_WEIGHTS, sum_copies(self.weights, self.copies))

    def value_terms(self) -> None:
        weights = sum_copies(self.weights, self.copies)
        for m in of_stage(self.mechanisms, ValueTerm):
            added = value_sizes(m, m.on_heads(weights)[0], self.ctx)
            self.notes.add(m, VALUE_TERM, Kind.SIZE, added)

    def replace(self) -> None:
        for m in of_stage(self.mechanisms, PostAttention):
            self.notes.field(m, REPLACE, lambda x: self.layer(x, self.ctx)[0], self.x)

    def result(self) -> None:
        self.notes.result(RESULT, sum_copies(self.weights, self.copies))

    def plain_weights(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the weights of these queries and keys without any mechanism."""
        weights = attend(q, k, v, self.ctx, need_weights=True)[1]
        assert weights is not None  # they were asked for
        return weights

    def own_copy(self, x: Tensor) -> Tensor:
        """Return the part of the middle copy of the keys: in a window those of the head itself."""
        return x.chunk(self.copies, dim=-1)[self.copies // 2]


def kind_of(matrix: Tensor) -> Kind:
    """Return how a matrix of any kind is drawn."""
    if matrix.dtype == torch.bool:
        return Kind.MASK
    if not matrix.is_floating_point():
        return Kind.RELATION
    return Kind.SIGNED if bool((matrix < 0).any()) else Kind.SIZE
