"""A window in the dependency tree lets attention reach words that are few edges away.

A query sees the keys with t_ij <= k, where t_ij is the number of edges between the words of i and
j. Pieces of one word see each other; the end of sentence sees all pieces, and all see it. Compare
the masks by distance in the tree of Li et al. 2021, "Improving BERT with Syntax-aware Local
Attention".
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import ScoreMask
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import NO_PARENT, SourceTree
from fairseq_posattn.io.records import at_least, one_of


@dataclass(frozen=True)
class TreeWindowOptions:
    hops: int = option(2, "a query sees words that are at most this many edges away", at_least(0))
    direction: str = option(
        "both",
        "it sees all of them (both), ancestors only (up), or descendants only (down)",
        one_of("both", "up", "down"),
    )
    end: bool = option(
        True,
        "the end of sentence sees all words and all see it; with false it sees itself alone, so "
        "that nothing comes from far away through it",
    )


class TreeWindow(ScoreMask):
    """A piece sees the words that are at most some edges away in the dependency tree."""

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
        """Return which words are near enough, B 1 Q K; all layers share it."""
        tree = ctx.given_tree
        return ctx.cached((TreeWindow, self.options), lambda: self.near(tree)[:, None])

    def near(self, tree: SourceTree) -> Tensor:
        distances = tree.distances
        near = distances <= self.options.hops
        if self.options.direction == "up":
            near = near & tree.keys_above()
        elif self.options.direction == "down":
            near = near & tree.keys_below()
        end = ~tree.of_queries(tree.is_word)  # it belongs to no word, and has no distance
        if not self.options.end:
            return near & (distances != NO_PARENT) | end & (distances == 0)
        return near | (distances == NO_PARENT) | end
