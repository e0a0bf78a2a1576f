"""Compute an attention layer step by step, and show the result of each stage as rows of a picture.

The stages are computed by the functions of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    AttentionContext,
    KeyExpansion,
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
from fairseq_posattn.core.attention.kernels import (
    forbidden_to_zero,
    repeat_keys,
    scaled_scores,
    softmax_weights,
    sum_copies,
)
from fairseq_posattn.core.attention.pipeline import (
    BIASES,
    allowed_pairs,
    bias_of,
    changed,
    expanded,
    expansions,
    of_stage,
    spread_bias,
    transformed,
)
from fairseq_posattn.inspection.rows import (
    Kind,
    Panel,
    Row,
    copy_labels,
    factor,
    panels,
    receptive_field,
    value_sizes,
)

WITHOUT = "attention weights without any mechanism, a_ij = softmax_j(q_i·k_j / √d)"
TRANSFORMED = "attention weights from the new queries and keys"
COPIES = "keys of several heads in one softmax, and which of them a query attends to (filled)"
BIAS = "bias added to the scores, b_ij"
SCORES_BEFORE = "scores before the change, s_ij"
SCORE_FACTOR = "factor of the scores, f_ij"
SCORES_AFTER = "scores after the change"
MASK = "which keys a query may attend to (filled)"
SOFTMAX = "attention weights after the softmax, a_ij"
WEIGHT_FACTOR = "factor of the weights, f_ij"
NEW_WEIGHTS = "new attention weights"
VALUE_TERM = "norm of the term added to the value of each key"
BEFORE = "influence of each word on the input of the attention"
REPLACE = "influence of each word on the output of the layer"
RESULT = "resulting attention weights"


@torch.no_grad()
def trace(
    layer: MultiheadSelfAttention,
    x: Tensor,
    ctx: AttentionContext,
    norm: Callable[[Tensor], Tensor] = torch.clone,
) -> list[Row]:
    """Return one or more rows for each stage of a layer, in the order of the pipeline.

    x: the input of the layer, of shape (T, 1, C), without padding.
    norm: layer normalisation before the attention (default: none).
    """
    mechanisms = of_stage(layer.mechanisms.values(), Mechanism)  # all of them
    rows = Rows(layer.heads, ctx)
    q, k, v = layer.project(norm(x))
    rows.weights(None, WITHOUT, attend(q, k, v, ctx, need_weights=True)[1])
    for pre in of_stage(mechanisms, PreAttention):
        rows.field(pre, BEFORE, partial(pre.before, ctx=ctx), x)
        x = pre.before(x, ctx)
    x = norm(x)
    q, k, v = layer.project(x)
    for transform in of_stage(mechanisms, QKVTransform):
        q, k, v = transformed(transform, q, k, v, ctx)
        rows.weights(transform, TRANSFORMED, attend(q, k, v, ctx, need_weights=True)[1])
    for m in mechanisms:
        for title, matrix in m.matrices(m.on_heads(q), ctx).items():
            rows.add(m, title, kind_of(matrix), matrix)
    trace_weights(rows, mechanisms, q, k, v)
    for post in of_stage(mechanisms, PostAttention):
        rows.field(post, REPLACE, lambda x: layer(x, ctx)[0], x)
    rows.result(RESULT, layer(x, ctx, need_weights=True)[1])
    return rows.found


def trace_weights(
    rows: Rows, mechanisms: Sequence[Mechanism], q: Tensor, k: Tensor, v: Tensor
) -> None:
    """Add the rows of the stages from the scores to the weights; see `explicit_attention`."""
    ctx = rows.ctx
    mask = allowed_pairs(q, ctx, mechanisms)
    keys, mask, copies = rows.expanded(expansions(mechanisms), k, v, mask)
    scores = scaled_scores(q, keys)
    for m in of_stage(mechanisms, (*BIASES, ScoreChange)):
        if isinstance(m, BIASES):
            rows.add(m, BIAS, Kind.SIGNED, bias_of(m, q, k, ctx))
            scores = scores + repeat_keys(spread_bias(m, q, k, ctx), copies)
        if isinstance(m, ScoreChange):
            before, scores = scores, changed(m, m.change_scores, scores, q, ctx, copies)
            old, new = (own_keys(m, x, copies) for x in (before, scores))
            if not rows.factor(m, SCORE_FACTOR, partial(m.change_scores, q=m.on_heads(q)), old):
                rows.add(m, SCORES_BEFORE, Kind.SCORES, old)
                rows.add(m, SCORES_AFTER, Kind.SCORES, new)
    for m in of_stage(mechanisms, ScoreMask):
        rows.add(m, MASK, Kind.MASK, m.allowed(m.on_heads(q), ctx))
    weights = softmax_weights(scores, mask)
    changes = of_stage(mechanisms, WeightChange)
    if changes:
        rows.weights(None, SOFTMAX, sum_copies(weights, copies))
    for m in changes:
        before, weights = weights, changed(m, m.change_weights, weights, q, ctx, copies)
        weights = forbidden_to_zero(weights, mask)
        change, old = partial(m.change_weights, q=m.on_heads(q)), own_keys(m, before, copies)
        if not rows.factor(m, WEIGHT_FACTOR, change, old):
            rows.weights(m, NEW_WEIGHTS, sum_copies(weights, copies))
    for m in of_stage(mechanisms, ValueTerm):
        of_heads = m.on_heads(sum_copies(weights, copies))[0]
        rows.add(m, VALUE_TERM, Kind.SIZE, value_sizes(m, of_heads, ctx))


def own_keys(mechanism: Mechanism, x: Tensor, copies: int) -> Tensor:
    """Return the scores or weights of a mechanism's heads for their own keys.

    With `window(across=3)`, a head also attends to the keys of its two neighbouring heads; the
    middle copy contains its own keys.
    """
    return mechanism.on_heads(x.chunk(copies, dim=-1)[copies // 2])


def kind_of(matrix: Tensor) -> Kind:
    if matrix.dtype == torch.bool:
        return Kind.MASK
    if not matrix.is_floating_point():
        return Kind.RELATION
    return Kind.SIGNED if bool((matrix < 0).any()) else Kind.SIZE


class Rows:
    """Collects the rows of one layer.

    Attention weights are skipped if they equal the most recently added ones.
    """

    def __init__(self, heads: int, ctx: AttentionContext):
        self.heads, self.ctx = heads, ctx
        self.found: list[Row] = []
        self.last_weights: Tensor | None = None

    def append(
        self, mechanism: Mechanism | None, title: str, kind: Kind, found: Sequence[Panel]
    ) -> None:
        self.found.append(Row(mechanism.name if mechanism else "", title, kind, tuple(found)))

    def add(self, mechanism: Mechanism, title: str, kind: Kind, values: Tensor) -> None:
        """Add a row with the matrices of a mechanism's heads.

        values: tensor that is broadcastable to (1, H, Q, K).
        """
        heads = range(self.heads) if mechanism.heads is None else mechanism.heads
        size = (1, len(heads), self.ctx.queries, self.ctx.length)
        of_heads = values[(None,) * (4 - values.dim())].expand(size)[0]
        self.append(mechanism, title, kind, panels(of_heads, heads, self.heads))

    def factor(
        self, mechanism: Mechanism, title: str, change: Callable[..., Tensor], x: Tensor
    ) -> bool:
        """Add the factors by which a change multiplies its input; return whether it does so."""
        factors = factor(partial(change, ctx=self.ctx), x)
        if factors is not None:
            self.add(mechanism, title, kind_of(factors), factors)
        return factors is not None

    def weights(self, mechanism: Mechanism | None, title: str, weights: Tensor | None) -> None:
        """Add attention weights of all heads, unless they equal the most recently added ones.

        weights: tensor of shape (1, H, Q, K).
        """
        assert weights is not None  # because of need_weights
        if not self.repeats(weights):
            self.last_weights = weights
            found = panels(weights[0], range(self.heads), self.heads)
            self.append(mechanism, title, Kind.WEIGHTS, found)

    def repeats(self, weights: Tensor) -> bool:
        return self.last_weights is not None and torch.allclose(weights, self.last_weights)

    def result(self, title: str, weights: Tensor) -> None:
        """Add the final attention weights.

        If the last row contains the same weights, mark that row as the result instead.
        """
        row = self.found[-1]
        if row.kind == Kind.WEIGHTS and self.repeats(weights):
            self.found[-1] = replace(row, title=f"{row.title}; this is the result")
        else:
            self.last_weights = None  # add the result even if it equals an earlier row
            self.weights(None, title, weights)

    def field(
        self, mechanism: Mechanism, title: str, function: Callable[[Tensor], Tensor], x: Tensor
    ) -> None:
        """Add the influence of each input position on each output position of a function.

        function: maps a tensor of shape (T, 1, C) to a tensor of the same shape.
        """
        found = Panel("all heads", 0, receptive_field(function, x).numpy())
        self.append(mechanism, title, Kind.FIELD, [found])

    def expanded(
        self, mechanisms: Sequence[KeyExpansion], k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None, int]:
        """Add a row for each expansion: which keys of each copy a query may attend to.

        Returns the keys and the mask after all expansions, and the number of copies.
        """
        labels = [[""]] * self.heads
        for m in mechanisms:
            labels = [
                [f"{new}, {old}".removesuffix(", ") for new in of_new for old in of_old]
                for of_new, of_old in zip(copy_labels(m, k), labels, strict=True)
            ]
            k, v, mask = expanded(m, k, v, mask)
            matrices = mask.expand(1, self.heads, self.ctx.queries, k.size(2))[0]
            found = [
                Panel(f"head {head}", head, matrix.numpy(), tuple(labels[head]))
                for head, matrix in enumerate(matrices)
            ]
            self.append(m, COPIES, Kind.MASK, found)
        return k, mask, len(labels[0])
