"""A decoder walks along the tree of the source: one head looks, and the others see what is near.

a_i are the weights of head 0 by its plain scores, q_i·k_j/sqrt(d), whatever other mechanisms add to
them, and a_p those of the step to which step i goes back: after the piece before the innermost
bracket that is open or, in a target without brackets, after the piece before. r is what may hold
between two words of the source: the same word (the end of sentence is the same as itself), or the
second is the parent of the first, or its child to the left, or to the right.

    m_ij^r = sum_k a_ik [r(k,j)],  n_ij^r = sum_k a_pk [r(k,j)]
    b_ij = log(sum_r m_ij^r + sum_{same, parent} n_ij^r + 0.001)
           + sum_r (m_ij^r q_i·K[r] + n_ij^r q_i·N[r]) / sqrt(d)

b is the bias of all heads but head 0. So they see the word at which head 0 looks with its
neighbours in the tree, and the head of the bracket with its parent, and their queries say which of
these they want. K and N are learnt tables of each head.

Where head 0 looks can be taught: with alignments in the data and fairseq's criterion
label_smoothed_cross_entropy_with_alignment, it looks at the word of which the last piece was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import scaled_scores, softmax_weights
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    KeyBias,
    NoOptions,
    Use,
    at_least_float32,
)
from fairseq_posattn.core.source_tree import PADDING, SourceTree

FLOOR = 1e-3  # this much of every word is seen from anywhere
STEPS = 4  # the same word, its parent, its child before it, its child after it


class TreeWalk(KeyBias):
    """Head 0 looks at a word, and the other heads see what is near it in the tree."""

    name = "tree_walk"
    paper = "ours"
    needs_tree = True
    cross_safe = True
    reads_brackets = True
    equation = "b_ij = log(near + 0.001) + Σ_r (m_ij^r q_i·K[r] + n_ij^r q_i·N[r])/√d"

    @classmethod
    def check(cls, options: NoOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if shape.heads < 2:
            raise ValueError("one head looks and the others walk, so a model needs two heads")

    def make_parameters(self) -> None:
        size = (self.shape.heads - 1, 2 * STEPS, self.shape.head_width)
        self.keys = nn.Parameter(torch.empty(size))  # K, and then N
        for table in self.keys:
            nn.init.xavier_uniform_(table)

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        look = self.look(q, k, ctx)
        ctx.looks.append(look)
        steps = self.steps(ctx).type_as(look)  # B R K K
        near = torch.einsum("bqk,brkj->brqj", look, steps)
        around = torch.einsum("bqk,brkj->brqj", self.before(look, ctx), steps)
        seen = near.sum(dim=1) + around[:, :2].sum(dim=1) + FLOOR
        keys = at_least_float32(self.keys * q.size(-1) ** -0.5)
        wanted = at_least_float32(q[:, 1:]) @ keys.transpose(-1, -2)  # B H Q R
        bias = torch.einsum("bhqr,brqj->bhqj", wanted, torch.cat([near, around], dim=1))
        bias = bias + seen.log()[:, None]
        return torch.cat([torch.zeros_like(bias[:, :1]), bias], dim=1)

    def steps(self, ctx: AttentionContext) -> Tensor:
        """Return what holds between the words of two pieces of the source, B R K K."""
        return ctx.cached(TreeWalk, lambda: one_step_away(ctx.given_tree))

    def look(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the weights with which head 0 looks at the source, B Q K."""
        scores = at_least_float32(scaled_scores(q[:, :1], k[:, :1]))
        return softmax_weights(scores, ctx.allowed)[:, 0]

    def before(self, look: Tensor, ctx: AttentionContext) -> Tensor:
        """Return where head 0 looked in the step that each query goes back to, B Q K."""
        back, all_steps = ctx.steps_before, ctx.with_earlier("look", look)
        back = back.expand(len(look), -1)[..., None]
        return all_steps.gather(1, back.clamp(min=0).expand(-1, -1, look.size(-1))) * (back >= 0)

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        steps = self.steps(ctx)
        numbers = torch.arange(STEPS, device=steps.device)[:, None, None]
        return {"1 parent, 2 child before, 3 after": (steps.long() * numbers).sum(1, keepdim=True)}


def one_step_away(tree: SourceTree) -> Tensor:
    """Tell which key is the same word (or end), the parent, a child before, or after: B R K K."""
    key, query = tree.of_keys(tree.words), tree.of_queries(tree.words)
    same, before = (query == key) & (key != PADDING), key < query
    child = tree.keys_that_are_children
    return torch.stack([same, tree.keys_that_are_parents, child & before, child & ~before], dim=1)


def alignment_of(looks: Sequence[Tensor]) -> Tensor:
    """Return where the looks of several layers, B T K, are after each target piece is written.

    It is their geometric mean, so that its logarithm is the mean of theirs.
    """
    mean = torch.stack([look.clamp(min=1e-8).log() for look in looks]).mean(dim=0).exp()
    return torch.cat([mean[:, 1:], mean[:, -1:]], dim=1)
