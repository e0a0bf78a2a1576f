"""The stage at which heads learn from trees, and the targets and the loss of what they look for."""

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
    """Return the sums that `Supervised.supervise` asks for, of these targets.

    In half precision small weights would be 0, and their loss infinite. A word is right if its
    last piece gives the highest score to its target's word.
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


NO_WORD = -2  # of no piece, not even of padding


@dataclass(frozen=True)
class ParentTargets:
    """These are the targets of a batch, on its device, made without a loop over words.

    allowed: bool, B Q K, the pieces that a piece should look at. known: bool, B Q, which pieces
    have some. words: B T, the word of each piece. parents: B T, the parent of the word of each
    piece, where the root is its own parent. ends: bool, B T, the last pieces of words that have a
    known parent.
    """

    allowed: Tensor
    known: Tensor
    words: Tensor
    parents: Tensor
    ends: Tensor

    @property
    def weights(self) -> Tensor:
        """Return weights that look at the targets alone, in equal parts, B Q K."""
        return self.allowed / self.allowed.sum(dim=-1, keepdim=True).clamp(min=1)

    @classmethod
    def all(cls, tree: SourceTree) -> ParentTargets:
        """Return all pieces of the parent's word as the targets of each piece."""
        parents = parents_or_own(tree)
        keys = tree.words.masked_fill(~tree.is_word, NO_WORD + PADDING)
        allowed = parents[:, :, None] == keys[:, None, :]
        return cls.of(tree, allowed, parents)

    @classmethod
    def first(cls, tree: SourceTree) -> ParentTargets:
        """Return the next piece, or for the last one of a word the first one of the parent."""
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
    """Return the parent of the word of each piece, B T, or the root itself; else NO_WORD."""
    inside = tree.words.clamp(0, tree.parents.size(1) - 1)
    return tree.parents.gather(1, inside).masked_fill(~tree.is_word, NO_WORD)


def last_pieces(tree: SourceTree) -> Tensor:
    """Tell which pieces are the last ones of their words, bool, B T."""
    following = tree.words.roll(-1, dims=1)
    following[:, -1] = PADDING
    return tree.is_word & (tree.words != following)
