"""A score bias for the number of edges between two words in the dependency tree.

    bias:      s_ij + b_h[min(t_ij, max)]
    gaussian:  s_ij - t_ij^2 / (2 sigma_h^2)

t_ij is the number of edges between the words of i and j; it is 0 for pieces of the same word. Each
head learns its own b or sigma. The distance between a word and the end-of-sentence symbol is
undefined. For such pairs, b has a separate entry, and the Gaussian applies no penalty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.stages import ScoreBias
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import NO_PARENT, SourceTree
from fairseq_posattn.files.records import at_least, one_of

START = 4.0  # initial sigma, which lowers the score of a word four edges away by 1/2


@dataclass(frozen=True)
class TreeDistanceOptions:
    kind: str = option(
        "bias",
        "bias: a learnt bias for each number of edges; gaussian: a Gaussian penalty with learnt "
        "width",
        one_of("bias", "gaussian"),
    )
    max: int = option(8, "kind=bias: clip distances to this number of edges", at_least(1))


class TreeDistance(ScoreBias):
    """Adds a bias for the number of edges between the words of query and key to the scores."""

    name = "tree_distance"
    paper = (
        "the distance in the tree as in Peng et al. 2021 and Chi et al. 2026; the scores are ours"
    )
    Options = TreeDistanceOptions
    options: TreeDistanceOptions
    accepts_heads = True
    needs_tree = True
    banded = True
    examples = ("", "max=1", "kind=gaussian")
    neutral = ""
    equation = "b_ij = b_h[min(t_ij, r)], or −t_ij² / (2σ_h²); t_ij edges between the words"

    def make_parameters(self) -> None:
        if self.options.kind == "bias":  # last entry: pairs with the end-of-sentence symbol
            self.scores = nn.Parameter(torch.zeros(self.head_count, self.options.max + 2))
        else:  # the logarithm keeps sigma positive
            self.log_sigma = nn.Parameter(torch.full((self.head_count,), math.log(START)))

    @torch.no_grad()
    def set_neutral(self) -> None:
        """Set all biases to zero, or make the Gaussian constant over any tree."""
        if self.options.kind == "bias":
            self.scores.zero_()
        else:
            self.log_sigma.fill_(30.0)

    def diagnostics(self) -> Mapping[str, Tensor]:
        if self.options.kind == "bias":
            scores = at_least_float32(self.scores)
            return {"score of the own word": scores[:, 0], "score of one edge": scores[:, 1]}
        return {"σ": at_least_float32(self.log_sigma).exp()}

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        return {"edges between the words": ctx.given_tree.distances[:, None]}

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (B, H, Q, K)."""
        tree = ctx.given_tree
        if self.options.kind == "bias":
            key = (TreeDistance, self.options.max, self.scores.dtype)
            chosen = ctx.cached(key, lambda: self.chosen(tree).to(self.scores.dtype))
            # On a GPU, the backward pass of scores.T[rows] would add up the rows sequentially.
            return (chosen @ self.scores.T).permute(0, 3, 1, 2)
        rate = 0.5 * torch.exp(-2 * at_least_float32(self.log_sigma))  # 1 / (2 sigma^2)
        squares = ctx.cached((TreeDistance, "squares"), lambda: self.squares(tree))
        return -rate[:, None, None] * squares

    def chosen(self, tree: SourceTree) -> Tensor:
        """Return the table row for each query and key as a one-hot vector, (B, Q, K, R)."""
        distances = tree.distances
        clipped = distances.clamp(max=self.options.max)
        rows = clipped.masked_fill(distances == NO_PARENT, self.options.max + 1)
        return rows[..., None] == torch.arange(self.options.max + 2, device=rows.device)

    def squares(self, tree: SourceTree) -> Tensor:
        """Return the squared distances, of shape (B, 1, Q, K); 0 for pairs without a distance."""
        return tree.distances.clamp(min=0).square()[:, None]
