"""Register tree_supervised_cross_entropy, which also trains heads to look at parents.

loss = label-smoothed cross-entropy + tree_loss * n * mean over the pieces of -log a_i,t(i)

The cross-entropy is the sum over the n pieces of the target, also under --sentence-avg. The
mechanism tree_supervised says what a_i,t(i) is.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

import math
from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.logging import metrics

from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.criterions.fused_cross_entropy import (
    FusedCrossEntropyConfig,
    LabelSmoothedCrossEntropyCriterion,
)

NAME = "tree_supervised_cross_entropy"
SUMS = ("tree_loss", "tree_pieces", "tree_right", "tree_words")  # in the order of `supervision`

NOTHING_LEARNS = (
    f"--criterion {NAME} needs a Transformer of this plug-in with a head that learns from trees; "
    "name one with --encoder-attention tree_supervised, or another criterion"
)
NO_TREES_TO_LEARN = (
    "the training data have no trees, which the mechanism tree_supervised learns from; make them "
    "with posattn prepare, and use --task structured_translation"
)


@dataclass
class TreeSupervisedConfig(FusedCrossEntropyConfig):
    """These are the options of the criterion tree_supervised_cross_entropy."""

    tree_loss: float = option(
        0.5, "multiply the loss of the heads that learn to look at parents by this"
    )


@register_criterion(NAME, dataclass=TreeSupervisedConfig)
class TreeSupervisedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """Adds the loss of the heads that learn from trees, and logs how many parents they find."""

    def __init__(  # fairseq finds the options by these names
        self,
        task,
        sentence_avg,
        label_smoothing,
        tree_loss,
        ignore_prefix_size=0,
        report_accuracy=False,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        if not 0 <= tree_loss < math.inf:
            raise InputError(f"--tree-loss {tree_loss}: give a number from 0 on")
        self.tree_loss = tree_loss
        self.sums = None  # of the batch that `forward` works on

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and what is logged, with four sums about trees."""
        loss, sample_size, logged = super().forward(model, sample, reduce)
        sums = loss.new_zeros(len(SUMS)) if self.sums is None else self.sums.data
        logged.update(zip(SUMS, sums, strict=True))  # all workers must log the same names
        self.sums = None
        return loss, sample_size, logged

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the loss with that of the heads, and the negative log likelihood of the target."""
        loss, nll_loss = super().compute_loss(model, net_output, sample, reduce)
        extra = net_output[1]
        self.sums = extra.get("tree_supervision") if isinstance(extra, dict) else None
        if self.sums is None and model.training:
            raise InputError(NOTHING_LEARNS)
        if self.sums is None or not reduce:
            return loss, nll_loss
        mean = self.sums[0] / self.sums[1].clamp(min=1)
        return loss + self.tree_loss * mean * sample["ntokens"], nll_loss

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log the means over all workers and batches: also the tree loss and the attachment."""
        super().reduce_metrics(logging_outputs)
        loss, pieces, right, words = (
            sum(float(log.get(name, 0)) for log in logging_outputs) for name in SUMS
        )
        if pieces:
            metrics.log_scalar("tree_loss", loss / pieces / math.log(2), pieces, round=3)
        if words:
            metrics.log_scalar("tree_attachment", 100 * right / words, words, round=2)
