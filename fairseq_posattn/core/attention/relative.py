"""Relative positions as learnt vectors for clipped distances (Shaw et al. 2018, Eq. 3 and 4).

    s_ij = q_i·(k_j + K[c(i,j)])/sqrt(d),  o_i = sum_j a_ij (v_j + V[c(i,j)]),  c(i,j) = clip(j - i)

K and V are learnt tables of 2·max + 1 rows, one pair per layer. A tensor of shape (T, T, d) is not
needed: the products of a query with all rows are gathered by c, and the weights are summed into
2·max + 1 buckets before they are multiplied by V.

For `tree_relative`, c(i,j) is the clipped relation of Wang et al. 2019 (Section 3.1, rules 1 and 2,
Eq. 6). As in the paper, its sign is that of query minus key, whereas `relative` uses key minus
query.

For `tree_depth_relative`, c(i,j) = clip(depth(j) - depth(i)), where depth(i) is the depth of the
word of piece i (Omote et al. 2019). Pieces of one word have the same depth. The depth of the
end-of-sentence symbol is one more than that of the deepest word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import by_head, by_query, times
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias, ValueTerm
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import at_least


@dataclass(frozen=True)
class RelativeOptions:
    max: int = option(16, "clip distances or relations to this absolute value", at_least(1))
    shared_heads: bool = option(
        True, "share one pair of tables among all heads; false: one pair per head"
    )


class ByTables(ScoreBias, ValueTerm):
    """Base class of mechanisms with tables of learnt vectors, one row per relation."""

    accepts_heads = True
    neutral: ClassVar[str | None] = ""

    def make_tables(self, rows: int, shared_heads: bool) -> None:
        """Create the tables K and V: one pair for all heads, or one pair per head."""
        tables = 1 if shared_heads else self.head_count
        size = (tables, rows, self.shape.head_width)
        self.keys = nn.Parameter(torch.empty(size))  # K
        self.values = nn.Parameter(torch.empty(size))  # V
        for table in (*self.keys, *self.values):  # one by one: R D
            nn.init.xavier_uniform_(table)

    def rows(self, ctx: AttentionContext) -> Tensor:
        """Return the table row for each query and key, (B, 1, Q, K) or (1, 1, Q, K)."""
        raise NotImplementedError

    def diagnostics(self) -> Mapping[str, Tensor]:
        return {"mean length of the key vectors": at_least_float32(self.keys).norm(dim=-1).mean()}

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        keys: Tensor = self.keys * q.size(-1) ** -0.5
        products = by_query(times(q, keys.transpose(-1, -2)))  # Q B H R
        rows = by_query(self.rows(ctx)).expand(*products.shape[:3], -1)  # Q B H K
        return by_head(products.gather(-1, rows))

    def value_term(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        weights = by_query(weights)  # Q B H K
        rows = by_query(self.rows(ctx)).expand_as(weights)
        buckets = weights.new_zeros(*weights.shape[:3], self.values.size(1))  # Q B H R
        return times(by_head(buckets.scatter_add_(-1, rows, weights)), self.values)


class TableByRelation(ByTables):
    """Base class of mechanisms whose tables are indexed by a clipped integer relation."""

    Options = RelativeOptions
    options: RelativeOptions

    def make_parameters(self) -> None:
        self.make_tables(2 * self.options.max + 1, self.options.shared_heads)

    def relation(self, ctx: AttentionContext) -> Tensor:
        """Return the relation of each query and key, an integer, broadcastable to (B, Q, K)."""
        raise NotImplementedError

    def rows(self, ctx: AttentionContext) -> Tensor:
        def clipped() -> Tensor:
            relation = self.relation(ctx).clamp(-self.options.max, self.options.max)
            return (relation + self.options.max).long().view(-1, 1, ctx.queries, ctx.length)

        return ctx.cached((type(self), self.options.max), clipped)

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        return {"relation c(i, j) of query and key": self.rows(ctx) - self.options.max}


class Relative(TableByRelation):
    """Adds a learnt vector for the distance between query and key to each key and value."""

    name = "relative"
    paper = "Shaw et al. 2018, Eq. 3 and 4"
    causal_safe = True
    banded = True
    examples = ("", "max=2, shared_heads=false")
    equation = "b_ij = q_i·K[c(i,j)]/√d and o_i = Σ_j a_ij (v_j + V[c(i,j)]), c(i,j) = clip(j − i)"

    def relation(self, ctx: AttentionContext) -> Tensor:
        return ctx.distances


class TreeRelative(TableByRelation):
    """Adds a learnt vector of the relation in the dependency tree to each key and value.

    The relation is +1 or -1 along an edge of the tree. Otherwise, it is the sum of the two depths,
    with the sign of i - j.
    """

    name = "tree_relative"
    paper = "Wang et al. 2019, Eq. 6"
    needs_tree = True
    banded = True
    equation = (
        "as relative, c(i,j) = clip(depth(i) − depth(j)) along an edge of the tree, "
        "else clip(sign(i − j)·(depth(i) + depth(j)))"
    )

    def relation(self, ctx: AttentionContext) -> Tensor:
        return ctx.given_tree.relations


class TreeDepthRelative(TableByRelation):
    """Adds a learnt vector for the difference in tree depth to each key and value."""

    name = "tree_depth_relative"
    paper = "Omote et al. 2019"
    needs_tree = True
    banded = True
    examples = ("", "max=2, shared_heads=false")
    equation = "as relative, c(i,j) = clip(depth(j) − depth(i))"

    def relation(self, ctx: AttentionContext) -> Tensor:
        tree = ctx.given_tree
        return tree.of_keys(tree.depths) - tree.of_queries(tree.depths)
