"""The tree_supervised_cross_entropy criterion, which also trains heads to attend to parents.

    loss = label-smoothed cross-entropy + tree_loss * n * mean over the pieces of -log a_i,t(i)

The cross-entropy is summed over the n target pieces, even with --sentence-avg. The documentation of
the tree_supervised mechanism defines a_i,t(i).
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

import math
from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.logging import metrics

from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.criterions.fused_cross_entropy import (
    FusedCrossEntropyConfig,
    LabelSmoothedCrossEntropyCriterion,
)

NAME = "tree_supervised_cross_entropy"
SUMS = ("tree_loss", "tree_pieces", "tree_right", "tree_words")  # in the order of `supervision`

NOTHING_LEARNS = (
    f"--criterion {NAME} needs a posattn_transformer with a head that learns from trees; add one "
    "with --encoder-attention tree_supervised, or use another criterion"
)
NO_TREES_TO_LEARN = (
    "the mechanism tree_supervised learns from trees, but the training data have none; create data "
    "with trees, for example with posattn prepare, and use --task structured_translation"
)


@dataclass
class TreeSupervisedConfig(FusedCrossEntropyConfig):
    """Options of the criterion: --tree-loss and those of fused_label_smoothed_cross_entropy."""

    tree_loss: float = option(
        0.5, "set the weight of the loss of heads that learn to attend to parents (default: 0.5)"
    )


@register_criterion(NAME, dataclass=TreeSupervisedConfig)
class TreeSupervisedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy plus the loss of attention heads that are trained on trees."""

    def __init__(  # fairseq passes options by parameter name
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
            raise InputError(f"--tree-loss {tree_loss} is negative or infinite; give a number >= 0")
        self.tree_loss = tree_loss
        self.sums = None  # the sums of the current batch

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and logging output, which includes the four sums in `SUMS`."""
        loss, sample_size, logged = super().forward(model, sample, reduce)
        sums = loss.new_zeros(len(SUMS)) if self.sums is None else self.sums.data
        logged.update(zip(SUMS, sums, strict=True))  # all workers must log the same names
        self.sums = None
        return loss, sample_size, logged

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the total loss and the negative log-likelihood of the target."""
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
        """Log means over all workers and batches, including tree_loss and tree_attachment."""
        super().reduce_metrics(logging_outputs)
        loss, pieces, right, words = (
            sum(float(log.get(name, 0)) for log in logging_outputs) for name in SUMS
        )
        if pieces:
            metrics.log_scalar("tree_loss", loss / pieces / math.log(2), pieces, round=3)
        if words:
            metrics.log_scalar("tree_attachment", 100 * right / words, words, round=2)
