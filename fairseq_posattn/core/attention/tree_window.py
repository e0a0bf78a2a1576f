"""A window in the dependency tree, which restricts attention to words within a few edges.

A query attends to keys with t_ij <= hops, where t_ij is the number of edges between the words of i
and j. Pieces of one word attend to each other. By default, the end-of-sentence symbol attends to
all pieces, and all pieces attend to it. Li et al. 2021 ("Improving BERT with Syntax-aware Local
Attention") use similar masks based on tree distance.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import ScoreMask
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import NO_PARENT, SourceTree
from fairseq_posattn.files.records import at_least, one_of


@dataclass(frozen=True)
class TreeWindowOptions:
    hops: int = option(2, "maximum number of edges between query and key", at_least(0))
    direction: str = option(
        "both",
        "attend to all words within this distance (both), or only to ancestors (up) or descendants "
        "(down)",
        one_of("both", "up", "down"),
    )
    end: bool = option(
        True,
        "the end-of-sentence symbol attends to all words, and all words to it; false: only to "
        "itself, so that it passes on no information from distant words",
    )


class TreeWindow(ScoreMask):
    """Restricts a piece to words that are at most a given number of edges away in the tree."""

    name = "tree_window"
    paper = "Li et al. 2021"
    Options = TreeWindowOptions
    options: TreeWindowOptions
    accepts_heads = True
    needs_tree = True
    banded = True
    examples = ("hops=1", "hops=2, direction=up", "hops=1, direction=down", "hops=1, end=false")
    neutral = "hops=1000"
    equation = "keys t_ij ≤ k, where t_ij is the number of edges between the words of i and j"

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        tree = ctx.given_tree
        return ctx.cached((TreeWindow, self.options), lambda: self.near(tree)[:, None])

    def near(self, tree: SourceTree) -> Tensor:
        distances = tree.distances
        near = distances <= self.options.hops
        if self.options.direction == "up":
            near = near & tree.keys_above()
        elif self.options.direction == "down":
            near = near & tree.keys_below()
        end = ~tree.of_queries(tree.is_word)  # keys_above/keys_below are undefined outside of words
        if not self.options.end:
            return near & (distances != NO_PARENT) | end & (distances == 0)
        return near | (distances == NO_PARENT) | end
