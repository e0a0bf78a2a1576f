"""Relative structural positions (Wang et al. 2019, Section 3.1, rules 1 and 2, Eq. 6).

As `relative`, with c(i,j) = clip(relation of i and j in the dependency tree). The sign runs query
minus key, that of `relative` key minus query: both as published.
"""

from __future__ import annotations

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.relative import TableByRelation


class TreeRelative(TableByRelation):
    """The relation is +-1 along an edge, else the sum of the depths with the sign of the order."""

    name = "tree_relative"
    needs_tree = True

    def relation(self, ctx: AttentionContext) -> Tensor:
        assert ctx.tree is not None  # needs_tree
        return ctx.tree.relations
