"""Parent-scaled self-attention, PASCAL (Bugliarello and Okazaki 2020).

The score s_ij is multiplied by the density of N(m_i, 1) at j, which is (2 pi)^(-1/2) exp(-(j -
m_i)^2 / 2). Here, m_i is the mean position of the pieces of the parent word of piece i. For the
root, the end-of-sentence symbol and words whose parent was truncated, m_i is the mean position of
their own pieces; this is our addition. By default, the mechanism acts on the first five heads of
the first layer.
"""

import math

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import ScoreChange


class ParentScaled(ScoreChange):
    """Multiplies scores by a Gaussian around the position of the parent in the dependency tree."""

    name = "parent_scaled"
    paper = "Bugliarello and Okazaki 2020, PASCAL"
    accepts_heads = True
    needs_tree = True
    usual_layers = (0,)
    usual_heads = (0, 1, 2, 3, 4)
    equation = "s′_ij = s_ij · exp(−(j − m_i)² / 2) / √(2π), m_i: mean position of the parent of i"

    def change_scores(self, scores: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        tree = ctx.given_tree
        words, parents = tree.words, tree.parent_words  # B K each; no parent: -1
        positions = ctx.positions.expand_as(words)
        of_parent = (parents[:, :, None] == words[:, None, :]) & (parents >= 0)[:, :, None]
        own = words[:, :, None] == words[:, None, :]  # B Q K
        chosen = torch.where(of_parent.any(-1, keepdim=True), of_parent, own)
        mean = (chosen * positions[:, None]).sum(-1) / chosen.sum(-1)  # m_i: B Q
        offset = positions[:, None, :] - mean[:, :, None]  # B Q K
        density = torch.exp(-0.5 * offset.square()) / math.sqrt(2 * math.pi)
        return scores * density[:, None].type_as(scores)
