"""A head that is trained to attend to the parent in the dependency tree (Deguchi et al. 2019).

The weights a_ij of the head are trained with the cross-entropy -log a_i,t(i), which is added to the
translation loss. With pieces=first, the target t(i) of the last piece of a word is the first piece
of the parent (for the root: the piece itself). The target of any other piece is the next piece.
With pieces=all, every piece of the parent (for the root: of the word itself) is a target, and the
loss is -log of the sum of their weights. The end-of-sentence symbol and pieces whose target
was truncated have no target.

With scores=biaffine, the scores of the head are q_i (I + U) k_j / sqrt(d). During training, the
head then attends to the gold targets instead of its own predictions (Strubell et al. 2018, LISA).
In translation, it uses its own predictions. Trees are read during training only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use
from fairseq_posattn.core.attention.stages import KeyBias, KeyExpansion, WeightChange
from fairseq_posattn.core.attention.supervised import ParentTargets, Supervised, supervision
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.files.records import one_of


@dataclass(frozen=True)
class TreeSupervisedOptions:
    scores: str = option(
        "dot",
        "dot: the usual scores; biaffine: a learnt matrix between queries and keys, and in "
        "training the head attends to the gold parents",
        one_of("dot", "biaffine"),
    )
    pieces: str = option(
        "first",
        "first: the target of a word's last piece is the first piece of the parent, and the target "
        "of any other piece is the next piece; all: the targets are all pieces of the parent",
        one_of("first", "all"),
    )


class TreeSupervised(KeyBias, Supervised, WeightChange):
    """Trains a head to attend to the parent of each word; translation needs no trees."""

    name = "tree_supervised"
    paper = "Deguchi et al. 2019; scores=biaffine: Strubell et al. 2018"
    Options = TreeSupervisedOptions
    options: TreeSupervisedOptions
    accepts_heads = True
    usual_layers = (0,)
    usual_heads = (0,)
    examples = ("scores=biaffine", "scores=biaffine, pieces=all")
    neutral = ""
    equation = "training adds −log a_i,t(i), where t(i) is the parent of i"

    def make_parameters(self) -> None:
        self.between = None
        if self.options.scores == "biaffine":  # U
            self.between = nn.Parameter(
                torch.zeros(self.head_count, self.shape.head_width, self.shape.head_width)
            )

    @classmethod
    def check(
        cls, options: TreeSupervisedOptions, shape: AttentionShape, others: Sequence[Use]
    ) -> None:
        for other in others:
            if (
                issubclass(other.mechanism, KeyExpansion)
                and other.mechanism(other.options, shape).copies > 1
            ):
                name = other.mechanism.name
                raise ValueError(
                    f"it needs one key per piece, but '{name}' has more; change or omit the latter"
                )

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        if self.between is None:
            return q.new_zeros(1, 1, 1, 1)
        biased: Tensor = (q * q.size(-1) ** -0.5) @ self.between @ k.transpose(-1, -2)
        return biased

    def supervise(self, scores: Tensor, ctx: AttentionContext) -> Tensor | None:
        if ctx.tree is None:
            return None
        return supervision(scores, self.targets_of_batch(ctx.tree, ctx))

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        if ctx.tree is None or self.between is None or not self.training:
            return weights
        targets = self.targets_of_batch(ctx.tree, ctx)
        gold = targets.weights.to(weights.dtype)[:, None]
        return torch.where(targets.known[:, None, :, None], gold, weights)

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        if ctx.tree is None:
            return {}
        title = "what each word learns to look at (1), beside the translation"
        return {title: self.targets(ctx.tree).allowed[:, None].long()}

    def targets_of_batch(self, tree: SourceTree, ctx: AttentionContext) -> ParentTargets:
        """Return the targets of the batch, cached for all layers."""
        return ctx.cached((type(self), self.options.pieces), lambda: self.targets(tree))

    def targets(self, tree: SourceTree) -> ParentTargets:
        return (
            ParentTargets.first(tree) if self.options.pieces == "first" else ParentTargets.all(tree)
        )
