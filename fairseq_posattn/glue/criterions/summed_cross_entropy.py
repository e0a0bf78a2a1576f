"""Train with a cross-entropy that is summed, not averaged, over all words, as Dagan (2019) did.

fairseq divides the gradient by the sample size, summed over processes and --update-freq. A sample
size of 0 leaves the gradient undivided, because the trainer then divides by 1, so several processes
or batches of one update give the sum of them all. Loss and perplexity are reported for each word,
in base 2, as fairseq's cross_entropy reports them.
"""

from __future__ import annotations

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass

UNDIVIDED = 0


@register_criterion("summed_cross_entropy", dataclass=FairseqDataclass)
class SummedCrossEntropyCriterion(FairseqCriterion):
    """Computes the summed cross-entropy. Its gradient grows with the batch, so use it with
    --clip-norm."""

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
            "sample_size": words,  # only the report divides by it
        }
        return loss, UNDIVIDED, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log loss and perplexity of each word, as cross_entropy does."""
        CrossEntropyCriterion.reduce_metrics(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
