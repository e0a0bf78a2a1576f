"""The stage in which heads are supervised by trees, with its targets and loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.source_tree import PADDING, SourceTree


class Supervised(Mechanism):
    """A mechanism whose heads learn from the trees of the training data.

    `--criterion tree_supervised_cross_entropy` adds their loss to that of the translation.
    """

    fused = False
    learns_from_trees = True
    found: Tensor | None = None

    def supervise(self, scores: Tensor, ctx: AttentionContext) -> Tensor | None:
        """Return four sums over pieces and heads, as `supervision` computes them: the loss, the
        pieces with a target, the correct words, and all words. None: the batch has no trees.

        The scores are B H Q K, the input of the softmax, in float32 or better; masked keys have
        the lowest possible score.
        """
        raise NotImplementedError

    def take_supervision(self) -> Tensor | None:
        """Return what `supervise` found in the last batch, once.

        The layer returns it with its output, so that it has a gradient under activation
        checkpointing, too.
        """
        found, self.found = self.found, None
        return found


def supervision(scores: Tensor, targets: ParentTargets) -> Tensor:
    """Return the four sums that `Supervised.supervise` returns, for these targets.

    Use scores in float32: in half precision, small weights underflow and give an infinite loss. A
    word is correct if its last piece has the highest score for a piece of the target word.
    """
    lowest = torch.finfo(scores.dtype).min
    on_target = scores.masked_fill(~targets.allowed[:, None], lowest).logsumexp(dim=-1)  # B H Q
    losses = scores.logsumexp(dim=-1) - on_target
    losses = losses.masked_fill(~targets.known[:, None], 0)
    chosen = scores.argmax(dim=-1)  # B H Q
    words = targets.words[:, None].expand(-1, chosen.size(1), -1)
    right = (words.gather(2, chosen) == targets.parents[:, None]) & targets.ends[:, None]
    heads = scores.size(1)
    return torch.stack(
        [losses.sum(), targets.known.sum() * heads, right.sum(), targets.ends.sum() * heads]
    )


NO_WORD = -2  # differs from the word index of every piece and of padding


@dataclass(frozen=True)
class ParentTargets:
    """The target pieces of each piece of a batch, computed without a loop over words.

        targets = ParentTargets.all(ctx.tree)

    allowed: bool, B Q K, the targets. known: bool, B Q, which pieces have a target. words: B T, the
    word of each piece. parents: B T, the parent of this word; the root is its own parent. ends:
    bool, B T, the last pieces of words with a known parent.
    """

    allowed: Tensor
    known: Tensor
    words: Tensor
    parents: Tensor
    ends: Tensor

    @property
    def weights(self) -> Tensor:
        """Return attention weights that are uniform over the targets, B Q K."""
        return self.allowed / self.allowed.sum(dim=-1, keepdim=True).clamp(min=1)

    @classmethod
    def all(cls, tree: SourceTree) -> ParentTargets:
        """The targets of each piece are all pieces of the parent of its word."""
        parents = parents_or_own(tree)
        keys = tree.words.masked_fill(~tree.is_word, NO_WORD + PADDING)
        allowed = parents[:, :, None] == keys[:, None, :]
        return cls.of(tree, allowed, parents)

    @classmethod
    def first(cls, tree: SourceTree) -> ParentTargets:
        """The target is the next piece of the word, or for its last piece the parent's first."""
        parents = parents_or_own(tree)
        words, columns = tree.words, torch.arange(tree.words.size(1), device=tree.words.device)
        before = words.roll(1, dims=1)
        before[:, 0] = PADDING
        begins = tree.is_word & (words != before)
        ends = last_pieces(tree)
        keys = words.masked_fill(~begins, NO_WORD + PADDING)
        at_parent = parents[:, :, None] == keys[:, None, :]
        own = columns[:, None] == columns  # Q K
        following = columns[:, None] + 1 == columns
        is_root = (parents == words)[:, :, None]
        at_end = torch.where(is_root, own, at_parent)
        allowed = torch.where(ends[:, :, None], at_end, following)
        return cls.of(tree, allowed & tree.is_word[:, :, None], parents)

    @classmethod
    def of(cls, tree: SourceTree, allowed: Tensor, parents: Tensor) -> ParentTargets:
        known = allowed.any(dim=-1)
        return cls(allowed, known, tree.words, parents, last_pieces(tree) & known)


def parents_or_own(tree: SourceTree) -> Tensor:
    """Return the parent of each piece's word, B T, at the root itself; else NO_WORD."""
    inside = tree.words.clamp(0, tree.parents.size(1) - 1)
    return tree.parents.gather(1, inside).masked_fill(~tree.is_word, NO_WORD)


def last_pieces(tree: SourceTree) -> Tensor:
    """Return which pieces are the last of their words, bool, B T."""
    following = tree.words.roll(-1, dims=1)
    following[:, -1] = PADDING
    return tree.is_word & (tree.words != following)
