"""Disentangled attention between content and relative positions (DeBERTa).

    s_ij = (q_i·k_j + q_i·K[delta(i,j)] + k_j·Q[delta(j,i)]) / sqrt(3d)

The equations are Eq. 2 to 4 of He et al. 2021. delta(i,j) = i - j + k, clipped to 0 ... 2k - 1. All
layers share the vectors P of the relative positions, from which each layer computes K = P W_k and Q
= P W_q. Either of the last two terms can be disabled; the number of enabled terms then replaces the
3 in sqrt(3d). No tensor of shape (T, T, d) is needed, because the products of queries with the rows
of K, and of keys with the rows of Q, are gathered by delta. Only the rows for distances that occur
in the batch are computed.

The authors' code, and therefore their checkpoints, use Q[delta(i,j)] in the last term
(p2c=program).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import times
from fairseq_posattn.core.attention.stages import KeyBias, QKVTransform
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import at_least, one_of


@dataclass(frozen=True)
class DisentangledOptions:
    max: int = option(512, "clip distances to this number of pieces (k)", at_least(1))
    content_to_position: bool = option(True, "include the term q_i·K[delta(i,j)]")
    position_to_content: bool = option(True, "include the term k_j·Q[delta(j,i)]")
    p2c: str = option(
        "published",
        "the position-to-content term uses Q[delta(j,i)] (published), or Q[delta(i,j)] as in the "
        "authors' code (program)",
        one_of("published", "program"),
    )

    def __post_init__(self) -> None:
        if not (self.content_to_position or self.position_to_content):
            raise ValueError("both terms with positions are disabled; enable at least one")

    @property
    def terms(self) -> int:
        return 1 + self.content_to_position + self.position_to_content


class Positions(nn.Module):
    """Learnt vectors of the relative positions."""

    def __init__(self, rows: int, width: int):
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(rows, width))
        nn.init.normal_(self.vectors, std=0.02)


class Disentangled(KeyBias, QKVTransform):
    """Adds content-to-position and position-to-content scores, based on relative positions."""

    name = "disentangled"
    paper = "He et al. 2021, Eq. 2 to 4"
    Options = DisentangledOptions
    options: DisentangledOptions
    accepts_heads = True
    causal_safe = True
    banded = True
    examples = (
        "max=3",
        "max=4, position_to_content=false",
        "max=4, content_to_position=false",
        "max=3, p2c=program",
    )
    equation = "s_ij = (q_i·k_j + q_i·K[δ(i,j)] + k_j·Q[δ(j,i)])/√(3d), δ(i,j) = clip(i − j + k)"
    shared: Positions

    def make_parameters(self) -> None:
        size = (self.head_count, self.shape.width, self.shape.head_width)
        if self.options.content_to_position:
            self.to_keys = nn.Parameter(torch.empty(size))  # W_k of each head
        if self.options.position_to_content:
            self.to_queries = nn.Parameter(torch.empty(size))  # W_q
        bound = math.sqrt(6 / (2 * self.shape.width))  # as for one matrix of all heads
        for matrix in self.parameters():
            nn.init.uniform_(matrix, -bound, bound)

    def for_all_layers(self) -> Positions:
        """Return the vectors P of the relative positions, which all layers share."""
        return Positions(2 * self.options.max, self.shape.width)

    def diagnostics(self) -> Mapping[str, Tensor]:
        return {"mean length of the positions": self.shared.vectors.float().norm(dim=-1).mean()}

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        return q * self.options.terms**-0.5, k, v

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the sum of the enabled terms, of shape (B, H, Q, K).

        `transform` has already divided q by the square root of the number of terms.
        """
        scale, found = q.size(-1) ** -0.5, []
        vectors = self.shared.vectors[self.needed(ctx)].type_as(q) * scale  # R C
        if self.options.content_to_position:
            rows = ctx.cached((Disentangled, self.options.max), lambda: self.rows(ctx))
            found.append(self.gathered(q, vectors, self.to_keys, rows))
        if self.options.position_to_content:
            key = (Disentangled, self.options.max, self.options.p2c)
            mirrored = ctx.cached(key, lambda: self.mirrored(ctx))
            scaled = vectors * self.options.terms**-0.5
            found.append(self.gathered(k, scaled, self.to_queries, mirrored).transpose(-1, -2))
        return sum(found[1:], start=found[0])

    def gathered(self, x: Tensor, vectors: Tensor, matrix: Tensor, rows: Tensor) -> Tensor:
        """Return the products of x with the rows of vectors·matrix.

        The rows are selected by the indices in `rows`, of shape (N, M). x has the shape (B, H, N,
        D), and `vectors` the shape (R, C).
        """
        table = vectors.expand(len(matrix), -1, -1) @ matrix.type_as(x)  # H R D
        products = times(x, table.transpose(-1, -2))  # B H N R
        found: Tensor = products.gather(-1, rows.expand(*products.shape[:2], -1, -1))
        return found

    def needed(self, ctx: AttentionContext) -> slice:
        """Return the range of rows of P for the distances that occur in the batch."""
        middle, length = self.options.max, ctx.length
        return slice(max(0, middle - length + 1), min(2 * middle, middle + length))

    def rows(self, ctx: AttentionContext) -> Tensor:
        """Return delta(i,j) as an index into the rows that `needed` selects, of shape (Q, K)."""
        return self.among_needed(self.options.max - ctx.distances, ctx)

    def mirrored(self, ctx: AttentionContext) -> Tensor:
        """Return delta(j,i), or delta(i,j) with p2c=program, (K, Q), as indices into `needed`."""
        sign = 1 if self.options.p2c == "published" else -1
        return self.among_needed(self.options.max + sign * ctx.distances.T, ctx)

    def among_needed(self, delta: Tensor, ctx: AttentionContext) -> Tensor:
        """Clip delta and convert it to an index into the rows that `needed` selects."""
        first: int = self.needed(ctx).start
        return delta.clamp(0, 2 * self.options.max - 1) - first
