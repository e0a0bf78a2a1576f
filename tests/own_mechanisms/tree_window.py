"""A window in the dependency tree: attention reaches words within k edges only.

t_ij <= k, where t_ij is the number of edges on the path between the words of pieces i and j. Pieces
of one word see each other (t_ij = 0); the end of sentence sees all pieces and all see it. Compare
the masks by distance in the tree of Li et al. (2021, "Improving BERT with Syntax-aware Local
Attention").
"""

from dataclasses import dataclass

import torch

from fairseq_posattn.attention import ScoreMask, option, register


@dataclass(frozen=True)
class TreeWindowOptions:
    """These are the options that `my_tree_window` takes."""

    edges: int = option(2, "words see each other over this many edges at most: k")

    def __post_init__(self):
        if self.edges < 0:
            raise ValueError(f"edges={self.edges}: give 0 or more")


@register
class TreeWindow(ScoreMask):
    """A piece sees the words that are at most k edges away in the dependency tree."""

    name = "my_tree_window"
    paper = "Li et al. 2021"
    Options = TreeWindowOptions
    accepts_heads = True
    needs_tree = True
    examples = ("edges=1", "edges=0")
    neutral = "edges=1000"

    def allowed(self, q, ctx):
        """Return which words are near enough, B 1 Q K; all layers share it."""
        return ctx.cached((TreeWindow, self.options), lambda: self.near(ctx.tree)[:, None])

    def near(self, tree):
        """Return which pieces are near enough, B Q K, by walking edge after edge."""
        words = tree.parents.size(1)
        edge = torch.eye(words, dtype=torch.bool, device=tree.words.device)[tree.parents]  # B W W
        edge = (edge | edge.transpose(1, 2)).float()
        near = torch.eye(words, device=edge.device).expand_as(edge)
        for _ in range(min(self.options.edges, words)):
            near = ((near @ edge + near) > 0).float()
        inside = tree.words.clamp(0, words - 1)
        rows = torch.arange(len(inside), device=inside.device)[:, None, None]
        pairs = near[rows, inside[:, :, None], inside[:, None, :]] > 0  # B Q K
        is_word = tree.is_word
        return pairs | ~is_word[:, :, None] | ~is_word[:, None, :]
