"""Relative structural positions are those of Wang et al. 2019 (Section 3.1, rules 1 and 2, Eq. 6).

The equations are those of `relative`, where c(i,j) = clip(relation of i and j in the tree). Its
sign runs query minus key, while that of `relative` runs key minus query: both are as published.
"""

from __future__ import annotations

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.relative import TableByRelation


class TreeRelative(TableByRelation):
    """A learnt vector of the relation in the dependency tree is added to each key and value.

    The relation is +1 or -1 along an edge, else the sum of the depths with the sign of the order.
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
        """Return the relation in the tree, B Q K; see `SourceTree.relations`."""
        return ctx.given_tree.relations
