"""Relative depths are learnt vectors for clipped differences of depths (Omote et al. 2019).

As `relative` (Shaw et al. 2018), with c(i,j) = clip(depth(j) - depth(i)): how much deeper the word
of the key lies in the dependency tree than that of the query. A difference of the other sign would
only number the rows of the learnt tables in another order. Pieces of one word have the same depth,
and the end of sentence is one deeper than the deepest word.
"""

from __future__ import annotations

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.relative import TableByRelation


class TreeDepthRelative(TableByRelation):
    """A learnt vector of the difference of their depths is added to each key and value."""

    name = "tree_depth_relative"
    paper = "Omote et al. 2019"
    needs_tree = True
    banded = True
    examples = ("", "max=2, shared_heads=false")
    equation = "as relative, c(i,j) = clip(depth(j) − depth(i))"

    def relation(self, ctx: AttentionContext) -> Tensor:
        """Return the depth of the key minus that of the query, B Q K."""
        tree = ctx.given_tree
        return tree.of_keys(tree.depths) - tree.of_queries(tree.depths)
