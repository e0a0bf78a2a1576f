"""Relation-aware attention that uses the labelled edge between two words (RAT-SQL).

The equations are those of `relative` (Shaw et al. 2018). As in Wang et al. 2020, c(i,j) encodes the
relation between the words of query i and key j: the label and the direction of a dependency edge,
"same word", or "none". For the end-of-sentence symbol, c(i,j) is always "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.relative import ByTables
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL, SourceTree

NONE, SAME_WORD, FIRST_EDGE = 0, 1, 2


@dataclass(frozen=True)
class TreeLabelsOptions:
    shared_heads: bool = option(
        True, "share one pair of tables among all heads; false: one pair per head"
    )


class TreeLabels(ByTables):
    """Adds a learnt vector for the dependency edge between the words to each key and value."""

    name = "tree_labels"
    paper = "Wang et al. 2020, RAT-SQL, Eq. 2"
    Options = TreeLabelsOptions
    options: TreeLabelsOptions
    needs_tree = True
    banded = True
    needs_labels = ("relations",)
    examples = ("", "shared_heads=false")
    equation = "as relative, c(i,j) = relation and direction of the edge, same word, or none"

    def make_parameters(self) -> None:
        self.names = max(self.shape.relations - UNKNOWN_LABEL, 1)  # without special symbols
        self.make_tables(FIRST_EDGE + 2 * self.names, self.options.shared_heads)

    def rows(self, ctx: AttentionContext) -> Tensor:
        tree = ctx.given_tree
        return ctx.cached((type(self), self.names), lambda: self.between(tree)[:, None])

    def between(self, tree: SourceTree) -> Tensor:
        """Return the table row for each query and key, of shape (B, Q, K).

        The first two rows are "none" and "same word". They are followed by one row per relation for
        keys that are the parent of the query, and one row per relation for keys that are a child.
        """
        label = (tree.relation_labels - UNKNOWN_LABEL).clamp(min=0)
        same = (tree.of_queries(tree.words) == tree.of_keys(tree.words)) & tree.of_queries(
            tree.is_word
        )
        rows = same.long() * SAME_WORD
        to_parent = FIRST_EDGE + tree.of_queries(label)
        rows = torch.where(tree.keys_that_are_parents, to_parent, rows)
        to_child = FIRST_EDGE + self.names + tree.of_keys(label)
        return torch.where(tree.keys_that_are_children, to_child, rows)

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        return {"row c(i, j) of query and key": self.rows(ctx)}
