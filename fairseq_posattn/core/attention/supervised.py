"""The stage that trains heads on dependency trees, with its targets and its loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.source_tree import PADDING, SourceTree


class Supervised(Mechanism):
    """Trains heads on the trees of the training data.

    `--criterion tree_supervised_cross_entropy` adds the loss of these heads to the translation
    loss.
    """

    fused = False
    learns_from_trees = True
    found: Tensor | None = None

    def supervise(self, scores: Tensor, ctx: AttentionContext) -> Tensor | None:
        """Return four sums over pieces and heads, as computed by `supervision`, or None.

        The four sums are the loss, the number of pieces with a target, the number of correct words,
        and the number of words. None means that the batch has no trees. The scores are the input of
        the softmax, of shape (B, H, Q, K), in float32 or better. Masked keys have the lowest finite
        score.
        """
        raise NotImplementedError

    def take_supervision(self) -> Tensor | None:
        """Return the result of `supervise` for the last batch, and reset it.

        The layer returns this result together with its output, so that gradients are computed even
        under activation checkpointing.
        """
        found, self.found = self.found, None
        return found


def supervision(scores: Tensor, targets: ParentTargets) -> Tensor:
    """Return the four sums that `Supervised.supervise` returns, for the given targets.

    Pass scores in float32: in half precision, small weights underflow, and the loss becomes
    infinite. A word counts as correct if its last piece assigns its highest score to a piece
    of the target word.
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
    """The pieces to which each piece of a batch is trained to attend (its targets).

        targets = ParentTargets.all(ctx.tree)

    The targets are computed without a loop over words.

    allowed: boolean mask of the targets of each piece, of shape (B, Q, K).
    known: boolean mask of the pieces that have a target, of shape (B, Q).
    words: the word of each piece, of shape (B, T).
    parents: the parent of this word, of shape (B, T). The root is its own parent.
    ends: boolean mask of the last pieces of words whose parent is known, of shape (B, T).
    """

    allowed: Tensor
    known: Tensor
    words: Tensor
    parents: Tensor
    ends: Tensor

    @property
    def weights(self) -> Tensor:
        """Return attention weights that are uniform over the targets, of shape (B, Q, K)."""
        return self.allowed / self.allowed.sum(dim=-1, keepdim=True).clamp(min=1)

    @classmethod
    def all(cls, tree: SourceTree) -> ParentTargets:
        """Return targets in which each piece attends to all pieces of its word's parent."""
        parents = parents_or_own(tree)
        keys = tree.words.masked_fill(~tree.is_word, NO_WORD + PADDING)
        allowed = parents[:, :, None] == keys[:, None, :]
        return cls.of(tree, allowed, parents)

    @classmethod
    def first(cls, tree: SourceTree) -> ParentTargets:
        """Return targets with at most one target per piece.

        The target of a word's last piece is the first piece of the parent (for the root: the piece
        itself). The target of any other piece is the next piece.
        """
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
    """Return each piece's parent word, (B, T): itself for the root, NO_WORD outside words."""
    inside = tree.words.clamp(0, tree.parents.size(1) - 1)
    return tree.parents.gather(1, inside).masked_fill(~tree.is_word, NO_WORD)


def last_pieces(tree: SourceTree) -> Tensor:
    """Return a boolean mask of the last piece of each word, of shape (B, T)."""
    following = tree.words.roll(-1, dims=1)
    following[:, -1] = PADDING
    return tree.is_word & (tree.words != following)
