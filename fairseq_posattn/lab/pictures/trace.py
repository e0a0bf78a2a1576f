"""Observe the stages of an attention layer for one sentence, and record their effects as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.core.attention import (
    AttentionContext,
    KeyExpansion,
    Mechanism,
    MultiheadSelfAttention,
    WeightChange,
    attend,
)
from fairseq_posattn.core.attention.kernels import sum_copies
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.lab.pictures.probes import copy_labels, factor, receptive_field, value_sizes
from fairseq_posattn.lab.pictures.rows import Kind, Panel, Row, panels

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


class Trace:
    """Runs one attention layer on one sentence, and records each stage.

    `__call__` passes the tensors of a stage to the method with the stage's name.
    """

    def __init__(
        self,
        layer: MultiheadSelfAttention,
        x: Tensor,
        ctx: AttentionContext,
        norm: Callable[[Tensor], Tensor] = torch.clone,
    ):
        """Prepare to run the layer on the input `x` of shape (T, 1, C), without padding.

        norm: layer normalisation before the attention (default: none).
        """
        self.layer, self.ctx, self.x, self.norm = layer, ctx, x, norm
        self.notes = Notes(layer.heads, ctx)
        self.notes.weights(None, WITHOUT, self.plain_weights(*layer.project(norm(x))))
        self.copies, self.labels = 1, [[""]] * layer.heads
        self.masks: list[tuple[Mechanism | None, Tensor]] = []

    @torch.no_grad()
    def run(self) -> list[Row]:
        x = self.norm(self.layer.before(self.x, self.ctx, self))
        self.layer(x, self.ctx, observe=self)
        self.notes.result(RESULT, self.weights)
        return self.notes.rows

    def __call__(self, stage: str, mechanism: Mechanism | None, **tensors: Tensor) -> None:
        """Record the result of a stage; see `core.attention.Observer`."""
        getattr(self, stage)(mechanism, **tensors)

    def before(self, m: Any, x: Tensor) -> None:
        self.notes.field(m, BEFORE, partial(m.before, ctx=self.ctx), x)

    def transform(self, m: Any, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.notes.weights(m, TRANSFORMED, self.plain_weights(q, k, v))

    def transformed(self, _: None, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.q = q
        for m in of_stage(self.layer.mechanisms.values(), Mechanism):
            for title, matrix in m.matrices(m.on_heads(q), self.ctx).items():
                self.notes.add(m, title, kind_of(matrix), matrix)

    def mask(self, m: Any, allowed: Tensor) -> None:
        """Store a mask until the softmax stage, which adds it as a row."""
        self.masks.append((m, allowed))

    def expand(self, m: KeyExpansion, keys: Tensor, mask: Tensor) -> None:
        self.labels = [
            [f"{new}, {old}".removesuffix(", ") for new in of_new for old in of_old]
            for of_new, of_old in zip(copy_labels(m, keys), self.labels, strict=True)
        ]
        self.copies *= m.copies
        self.notes.copies(m, COPIES, mask, self.labels)

    def bias(self, m: Any, bias: Tensor) -> None:
        self.notes.add(m, BIAS, Kind.SIGNED, bias)

    def change_scores(self, m: Any, before: Tensor, after: Tensor) -> None:
        before, after = (m.on_heads(self.own_copy(scores)) for scores in (before, after))
        change = partial(m.change_scores, q=m.on_heads(self.q), ctx=self.ctx)
        if (factors := factor(change, before)) is not None:
            self.notes.add(m, SCORE_FACTOR, kind_of(factors), factors)
            return
        self.notes.add(m, SCORES_BEFORE, Kind.SCORES, before)
        self.notes.add(m, SCORES_AFTER, Kind.SCORES, after)

    def softmax(self, _: None, weights: Tensor) -> None:
        for m, allowed in self.masks:
            self.notes.add(m, MASK, Kind.MASK, allowed)
        if of_stage(self.layer.mechanisms.values(), WeightChange):
            self.notes.weights(None, SOFTMAX, sum_copies(weights, self.copies))

    def change_weights(self, m: Any, before: Tensor, after: Tensor) -> None:
        change = partial(m.change_weights, q=m.on_heads(self.q), ctx=self.ctx)
        if (factors := factor(change, m.on_heads(self.own_copy(before)))) is not None:
            self.notes.add(m, WEIGHT_FACTOR, kind_of(factors), factors)
        else:
            self.notes.weights(m, NEW_WEIGHTS, sum_copies(after, self.copies))

    def value_term(self, m: Any, weights: Tensor) -> None:
        self.notes.add(m, VALUE_TERM, Kind.SIZE, value_sizes(m, weights[0], self.ctx))

    def end(self, _: None, weights: Tensor) -> None:
        self.weights = weights

    def replace(self, m: Any, x: Tensor, out: Tensor) -> None:
        self.notes.field(m, REPLACE, lambda x: self.layer(x, self.ctx)[0], x)

    def plain_weights(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the attention weights for these queries and keys without any mechanism."""
        weights = attend(q, k, v, self.ctx, need_weights=True)[1]
        assert weights is not None  # because of need_weights
        return weights

    def own_copy(self, x: Tensor) -> Tensor:
        """Return the part of `x` that belongs to the middle copy of the keys.

        With `window(across=3)`, a head also attends to the keys of its two neighbouring heads; the
        middle copy contains its own keys.
        """
        return x.chunk(self.copies, dim=-1)[self.copies // 2]


def kind_of(matrix: Tensor) -> Kind:
    if matrix.dtype == torch.bool:
        return Kind.MASK
    if not matrix.is_floating_point():
        return Kind.RELATION
    return Kind.SIGNED if bool((matrix < 0).any()) else Kind.SIZE


class Notes:
    """Collects the rows of one layer.

    Attention weights are skipped if they equal the most recently added ones.
    """

    def __init__(self, heads: int, ctx: AttentionContext):
        self.heads, self.ctx = heads, ctx
        self.rows: list[Row] = []
        self.last_weights: Tensor | None = None

    def add(self, mechanism: Mechanism | None, title: str, kind: Kind, values: Tensor) -> None:
        """Add a row.

        values: tensor that is broadcastable to (1, H, Q, K), where H is the number of heads of the
            mechanism.
        """
        own = mechanism.heads if mechanism else None
        heads = range(self.heads) if own is None else own
        size = (1, len(heads), self.ctx.queries, self.ctx.length)
        of_heads = values[(None,) * (4 - values.dim())].expand(size)[0]
        self.append(mechanism, title, kind, panels(of_heads, heads, self.heads))

    def append(
        self, mechanism: Mechanism | None, title: str, kind: Kind, found: Sequence[Panel]
    ) -> None:
        self.rows.append(Row(mechanism.name if mechanism else "", title, kind, tuple(found)))

    def weights(self, mechanism: Mechanism | None, title: str, weights: Tensor) -> None:
        """Add attention weights of all heads, unless they equal the most recently added ones.

        weights: tensor of shape (1, H, Q, K).
        """
        if not self.stand_above(weights):
            self.last_weights = weights
            self.append(
                mechanism, title, Kind.WEIGHTS, panels(weights[0], range(self.heads), self.heads)
            )

    def stand_above(self, weights: Tensor) -> bool:
        return self.last_weights is not None and torch.allclose(weights, self.last_weights)

    def result(self, title: str, weights: Tensor) -> None:
        """Add the final attention weights.

        If the last row contains the same weights, mark that row as the result instead.
        """
        row = self.rows[-1]
        if row.kind == Kind.WEIGHTS and self.stand_above(weights):
            self.rows[-1] = replace(row, title=f"{row.title}; this is the result")
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

    def copies(
        self, mechanism: Mechanism, title: str, mask: Tensor, labels: Sequence[Sequence[str]]
    ) -> None:
        """Add a mask that shows which keys of each copy a query may attend to.

        mask: tensor that is broadcastable to (1, H, Q, copies · K).
        """
        size = (1, self.heads, self.ctx.queries, len(labels[0]) * self.ctx.length)
        found = [
            Panel(f"head {head}", head, matrix.numpy(), tuple(labels[head]))
            for head, matrix in enumerate(mask.expand(size)[0])
        ]
        self.append(mechanism, title, Kind.MASK, found)
