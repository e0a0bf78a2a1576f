"""Cross-attention that walks along the source tree.

One head selects a word, and the other heads attend to its neighbourhood in the tree. Let a_i be the
attention weights of head 0, computed from its scores q_i·k_j/sqrt(d) without other mechanisms. Let
a_p be its weights in an earlier step p. In a target with brackets, p is the step before the
innermost open bracket; otherwise, it is the previous step. r is one of four relations between two
source words: the second word is the same word as the first, its parent, its left child or its right
child. The end-of-sentence symbol counts as the same word as itself. [r(k,j)] is 1 if relation r
holds between the words of k and j, and 0 otherwise.

    m_ij^r = sum_k a_ik [r(k,j)],  n_ij^r = sum_k a_pk [r(k,j)]
    b_ij = log(sum_r m_ij^r + sum_{same, parent} n_ij^r + 0.001)
           + sum_r (m_ij^r q_i·K[r] + n_ij^r q_i·N[r]) / sqrt(d)

The bias b is added to the scores of all heads except head 0. It favours the word to which head 0
attends, the neighbours of this word in the tree, the word to which head 0 attended in step p, and
the parent of that word. The query determines which of these words are preferred. Each head learns
its own tables K and N.

Scores alone cannot distinguish two occurrences of a word. With follow=true, the scores of head 0
therefore get a bias towards the word of step p and its neighbours:

    l_ij^r = sum_k a'_pk [r(k,j)]
    b0_ij = log(sum_r l_ij^r + 0.001) + sum_r l_ij^r q_i·L[r] / sqrt(d)

a' are the weights of head 0 in the layer below or, in the first layer, those without this bias.

Head 0 can be supervised. With alignments in the data and fairseq's
label_smoothed_cross_entropy_with_alignment criterion, it learns to attend to the source word from
which the last target piece was generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import scaled_scores, softmax_weights
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
from fairseq_posattn.core.attention.stages import KeyBias
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import SourceTree

FLOOR = 1e-3  # keeps the logarithm finite for words with zero weight
STEPS = 4  # relations: same word, parent, left child, right child


@dataclass(frozen=True)
class TreeWalkOptions:
    follow: bool = option(
        False,
        "bias head 0 towards the earlier word and its neighbours, to tell repeated words apart",
    )


class TreeWalk(KeyBias):
    """Biases the other heads towards words close to the focus of head 0 in the source tree."""

    name = "tree_walk"
    paper = "ours"
    Options = TreeWalkOptions
    options: TreeWalkOptions
    needs_tree = True
    cross_safe = True
    reads_brackets = True
    equation = "b_ij = log(near + 0.001) + Σ_r (m_ij^r q_i·K[r] + n_ij^r q_i·N[r])/√d"

    @classmethod
    def check(cls, options: TreeWalkOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if shape.heads < 2:
            raise ValueError("it needs a head besides head 0; use at least 2 heads")

    def make_parameters(self) -> None:
        size = (self.shape.heads - 1, 2 * STEPS, self.shape.head_width)
        self.keys = nn.Parameter(torch.empty(size))  # K, and then N
        for table in self.keys:
            nn.init.xavier_uniform_(table)
        if self.options.follow:
            self.first_keys = nn.Parameter(torch.empty(1, STEPS, self.shape.head_width))  # L
            nn.init.xavier_uniform_(self.first_keys[0])

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        tree, first = ctx.given_tree, q[:, :1]
        scores = at_least_float32(scaled_scores(first, k[:, :1]))  # B 1 Q K
        own = torch.zeros_like(scores)
        if self.options.follow:
            below = ctx.looks[-1] if ctx.looks else softmax_weights(scores, ctx.allowed)[:, 0]
            led = moved(self.before(below, ctx, "below"), tree)
            own = towards(first, self.first_keys, led, led.sum(dim=1))
            scores = scores + own
        look = softmax_weights(scores, ctx.allowed)[:, 0]
        ctx.looks.append(look)
        near = moved(look, tree)
        around = moved(self.before(look, ctx, "look"), tree)
        seen = near.sum(dim=1) + around[:, :2].sum(dim=1)
        others = towards(q[:, 1:], self.keys, torch.cat([near, around], dim=1), seen)
        return torch.cat([own, others], dim=1)

    def before(self, look: Tensor, ctx: AttentionContext, name: str) -> Tensor:
        """Return, for each query, the weights of head 0 at its step p, of shape (B, Q, K).

        name: the name under which incremental decoding stores the weights.
        """
        back, all_steps = ctx.steps_before, ctx.with_earlier(name, look)
        back = back.expand(len(look), -1)[..., None]
        return all_steps.gather(1, back.clamp(min=0).expand(-1, -1, look.size(-1))) * (back >= 0)

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        tree = ctx.given_tree
        pieces = torch.eye(tree.words.size(1), device=tree.words.device)
        steps = moved(pieces.expand(len(tree.words), -1, -1), tree).long()
        numbers = torch.arange(STEPS, device=steps.device)[:, None, None]
        return {"1 parent, 2 child before, 3 after": (steps * numbers).sum(1, keepdim=True)}


def towards(q: Tensor, tables: Tensor, sums: Tensor, seen: Tensor) -> Tensor:
    """Return log(seen + 0.001) + sum_r sums^r q·tables[r] / sqrt(d), of shape (B, H, Q, K).

    q: B H Q D, tables: H R D, sums: B R Q K, seen: B Q K
    """
    keys = at_least_float32(tables * q.size(-1) ** -0.5)
    wanted = at_least_float32(q) @ keys.transpose(-1, -2)  # B H Q R
    return torch.einsum("bhqr,brqj->bhqj", wanted, sums) + (seen + FLOOR).log()[:, None]


def moved(weights: Tensor, tree: SourceTree) -> Tensor:
    """Return the sums m_ij^r, of shape (B, R, Q, K), of weights of shape (B, Q, K).

    They are summed per word, because products with [r(k,j)] are slow for long sources.
    """
    words, parents = tree.words, tree.parent_words

    def summed(start: Tensor, end: Tensor) -> Tensor:
        """Sum, for each piece j, the weights of all pieces k with start[k] == end[j]."""
        of_k, of_j = (at.clamp(min=0)[:, None].expand_as(weights) for at in (start, end))
        sums = weights.new_zeros(*weights.shape[:2], tree.parents.size(1) + 1)
        sums = sums.scatter_add(-1, of_k, weights * (start >= 0)[:, None])
        return sums.gather(-1, of_j) * (end >= 0)[:, None]

    child = summed(words, parents)
    left, right = (child * side[:, None] for side in (words < parents, words > parents))
    return torch.stack([summed(words, words), summed(parents, words), left, right], dim=1)


def alignment_of(looks: Sequence[Tensor]) -> Tensor:
    """Return the source alignment of each target piece, of shape (B, T, K).

    The alignment is the geometric mean of head 0's attention weights over several layers. It is
    shifted by one step, because each step attends to the source word of the previous target piece.
    """
    mean = torch.stack([look.clamp(min=1e-8).log() for look in looks]).mean(dim=0).exp()
    return torch.cat([mean[:, 1:], mean[:, -1:]], dim=1)
