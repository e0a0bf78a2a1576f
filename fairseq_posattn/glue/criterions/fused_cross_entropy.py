"""Register fused_label_smoothed_cross_entropy: fairseq's loss with less time and memory.

The value is that of label_smoothed_cross_entropy but for rounding, and so is the gradient. fairseq
holds the probabilities of all words and their gradients beside the scores; here the gradient takes
the place of the scores.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass

from fairseq.criterions import label_smoothed_cross_entropy as stock
from fairseq.criterions import register_criterion
from fairseq.models import FairseqDecoder

from fairseq_posattn.core.label_smoothing import smoothed_cross_entropy


@dataclass
class FusedCrossEntropyConfig(stock.LabelSmoothedCrossEntropyCriterionConfig):
    """These are the options of the criterion fused_label_smoothed_cross_entropy."""


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=FusedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(stock.LabelSmoothedCrossEntropyCriterion):
    """Computes the loss from the scores; where a model gives none, fairseq's way is taken.

    It has the name of fairseq's class because fairseq asks for the name in a checkpoint before it
    goes on with the optimiser's state in it.
    """

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the summed loss, and the negative log likelihood of the target."""
        if not reduce or self.ignore_prefix_size or not gives_scores(model):
            return super().compute_loss(model, net_output, sample, reduce)
        scores = net_output[0].flatten(0, -2)
        targets = model.get_targets(sample, net_output).flatten()
        return smoothed_cross_entropy(scores, targets, self.eps, self.padding_idx)


def gives_scores(model) -> bool:
    """Return whether the output of a model is scores of all words, before any softmax."""
    decoder = getattr(model, "decoder", None)
    plain = getattr(type(decoder), "get_normalized_probs", None)
    adaptive = getattr(decoder, "adaptive_softmax", None)
    return plain is FairseqDecoder.get_normalized_probs and adaptive is None
