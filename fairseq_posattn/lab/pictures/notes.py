"""Collects the rows of a picture, in the order in which they are noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fairseq_posattn.core.attention import AttentionContext, Mechanism
from fairseq_posattn.lab.pictures.probes import receptive_field
from fairseq_posattn.lab.pictures.rows import Kind, Panel, Row, panels


class Notes:
    """Holds the rows of one layer; weights that the last row of weights has are not added again."""

    def __init__(self, heads: int, ctx: AttentionContext):
        self.heads, self.ctx = heads, ctx
        self.rows: list[Row] = []
        self.last_weights: Tensor | None = None

    def add(self, mechanism: Mechanism | None, title: str, kind: Kind, values: Tensor) -> None:
        """Add a row. values: broadcastable to 1 H Q K, of the mechanism's heads."""
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
        """Add a row of attention weights, 1 H Q K of all heads, unless they are those above."""
        if not self.stand_above(weights):
            self.last_weights = weights
            self.append(
                mechanism, title, Kind.WEIGHTS, panels(weights[0], range(self.heads), self.heads)
            )

    def stand_above(self, weights: Tensor) -> bool:
        return self.last_weights is not None and torch.allclose(weights, self.last_weights)

    def result(self, title: str, weights: Tensor) -> None:
        """Add the weights that come out, or say that the last row has them already."""
        row = self.rows[-1]
        if row.kind == Kind.WEIGHTS and self.stand_above(weights):
            self.rows[-1] = replace(row, title=f"{row.title}; this is the result")
        else:
            self.last_weights = None  # they stand further up, and come last all the same
            self.weights(None, title, weights)

    def field(
        self, mechanism: Mechanism, title: str, function: Callable[[Tensor], Tensor], x: Tensor
    ) -> None:
        """Add how strongly the outputs of a function depend on its inputs; both are T 1 C."""
        found = Panel("all heads", 0, receptive_field(function, x).numpy())
        self.append(mechanism, title, Kind.FIELD, [found])

    def copies(
        self, mechanism: Mechanism, title: str, mask: Tensor, labels: Sequence[Sequence[str]]
    ) -> None:
        """Add which keys of which copy a query sees. mask: broadcastable to 1 H Q copies·K."""
        size = (1, self.heads, self.ctx.queries, len(labels[0]) * self.ctx.length)
        found = [
            Panel(f"head {head}", head, matrix.numpy(), tuple(labels[head]))
            for head, matrix in enumerate(mask.expand(size)[0])
        ]
        self.append(mechanism, title, Kind.MASK, found)
