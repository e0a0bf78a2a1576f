"""Dependency-scaled self-attention, Deps-SAN (Peng et al. 2021).

The score s_ij is multiplied by the density of N(0, sigma^2) at t_ij, which is (2 pi sigma^2)^(-1/2)
exp(-t_ij^2 / (2 sigma^2)). Here, t_ij is the number of edges between the words of i and j in the
dependency tree. The authors use all heads of the first three layers.

The distance to the end-of-sentence symbol is one more than the largest distance between two words
of the sentence. The authors' code uses the largest distance in the batch instead, so that the
output for a sentence depends on the other sentences. To make the model robust to parsing errors,
the distance to the end-of-sentence symbol can also be assigned to distant words (`furthest`) or
random pairs (`drop`) during training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import ScoreChange
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import NO_PARENT, SourceTree
from fairseq_posattn.files.records import at_least, limit


@dataclass(frozen=True)
class DepsSanOptions:
    sigma: float = option(
        1.0,
        "standard deviation of the Gaussian, in edges",
        limit(lambda sigma: sigma > 0, "a number above 0"),
    )
    furthest: int = option(
        0,
        "in training, replace distances above this number of edges with the distance to the "
        "end-of-sentence symbol; 0: never",
        at_least(0),
    )
    drop: float = option(
        0.0,
        "in training, replace this fraction of all distances, drawn at random, with the distance "
        "to the end-of-sentence symbol",
        limit(lambda share: 0 <= share < 1, "a number of at least 0 and less than 1"),
    )


class DepsSan(ScoreChange):
    """Multiplies scores by a Gaussian of the distance between the words in the dependency tree."""

    name = "deps_san"
    paper = "Peng et al. 2021, Deps-SAN"
    Options = DepsSanOptions
    options: DepsSanOptions
    accepts_heads = True
    needs_tree = True
    examples = ("", "sigma=2, furthest=2")
    equation = "s′_ij = s_ij · exp(−t_ij² / (2σ²)) / √(2πσ²), t_ij edges between the words"

    def change_scores(self, scores: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        distances = self.distances(ctx.given_tree)
        sigma = self.options.sigma
        density = torch.exp(-0.5 * (distances / sigma).square()) / (sigma * math.sqrt(2 * math.pi))
        return scores * density[:, None].type_as(scores)

    def distances(self, tree: SourceTree) -> Tensor:
        """Return t_ij, of shape (B, Q, K).

        Pairs with the end-of-sentence symbol get 1 + the largest distance between two words. During
        training, pairs selected by `furthest` or `drop` get the same value.
        """
        found = tree.distances
        most = found.flatten(1).max(dim=1).values[:, None, None] + 1
        end = (found == NO_PARENT) | ~tree.is_word[:, :, None]
        if self.training and self.options.furthest:
            end = end | (found > self.options.furthest)
        if self.training and self.options.drop:
            end = end | (torch.rand(found.shape, device=found.device) < self.options.drop)
        return torch.where(end, most, found)
