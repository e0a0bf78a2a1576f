"""The stage at which heads learn from trees, and the loss of heads that look for given pieces."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.parent_targets import ParentTargets


class Supervised(Mechanism):
    """The heads of this mechanism learn from the trees of the training data.

    The criterion tree_supervised_cross_entropy adds their loss to that of the translation.
    """

    fused = False
    learns_from_trees = True
    found: Tensor | None = None

    def supervise(self, scores: Tensor, ctx: AttentionContext) -> Tensor | None:
        """Return four sums over pieces and heads: loss, pieces with a target, words right, words.

        None: the batch has no trees. scores: B H Q K of the mechanism's heads, as the softmax takes
        them, in float32 or better; those of forbidden keys are as low as scores can be.
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
