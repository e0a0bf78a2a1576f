"""The summed_cross_entropy criterion: cross-entropy summed over all words, as in Dagan (2019).

fairseq divides the gradient by the sample size, summed over all processes and all batches of an
update (--update-freq). This criterion returns a sample size of 0, so that the trainer divides by 1
instead. The gradient is therefore the sum over all processes and batches of an update. As in
fairseq's cross_entropy, the loss (in base 2) and the perplexity are reported per word.
"""

from __future__ import annotations

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass

UNDIVIDED = 0


@register_criterion("summed_cross_entropy", dataclass=FairseqDataclass)
class SummedCrossEntropyCriterion(FairseqCriterion):
    """Summed cross-entropy; use it with --clip-norm, because its gradient grows with the batch."""

    def forward(self, model, sample, reduce: bool = True):
        net_output = model(**sample["net_input"])
        log_probabilities = model.get_normalized_probs(net_output, log_probs=True)
        loss = F.nll_loss(
            log_probabilities.flatten(0, 1),
            model.get_targets(sample, net_output).flatten(),
            ignore_index=self.padding_idx,
            reduction="sum" if reduce else "none",
        )
        words = sample["ntokens"]
        logging_output = {
            "loss": loss.data,
            "ntokens": words,
            "nsentences": len(sample["target"]),
            "sample_size": words,  # used only for reporting
        }
        return loss, UNDIVIDED, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log the loss (in base 2) and the perplexity per word."""
        CrossEntropyCriterion.reduce_metrics(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
