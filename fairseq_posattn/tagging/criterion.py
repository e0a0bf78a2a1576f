"""The tagging criterion: cross-entropy, and tagging accuracy on three groups of words.

As in the implementation of Dufter et al. (2020), the groups are all words, out-of-vocabulary words
and ambiguous words. Ambiguous words are words in the dictionary that have several tags in the
training data.
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines

GROUPS = {"": "accuracy", "oov_": "oov_accuracy", "ambiguous_": "ambiguous_accuracy"}


def totals(outputs: Iterable[dict]) -> dict[str, float]:
    """Sum the losses, and the counts of words and correct words per group, over logging outputs."""
    outputs = list(outputs)
    parts = ["loss", *(f"{prefix}{part}" for prefix in GROUPS for part in ("words", "right"))]
    return {part: sum(float(output.get(part, 0)) for output in outputs) for part in parts}


def mean_loss(total: dict[str, float]) -> float:
    """Return the mean loss per word, in bits."""
    return total["loss"] / max(total["words"], 1) / math.log(2)


def percentages(total: dict[str, float]) -> dict[str, float]:
    """Return the accuracy on each group of words in percent; empty groups are omitted."""
    return {
        name: 100 * total[f"{prefix}right"] / total[f"{prefix}words"]
        for prefix, name in GROUPS.items()
        if total[f"{prefix}words"]
    }


def read_curve(path: str | Path) -> list[dict]:
    """Read the points of a learning curve; return an empty list if the file does not exist."""
    if not Path(path).exists():
        return []
    points = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            points.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}:{number}: the line is damaged ({error}); delete the file"
            ) from error
    return points


@register_criterion("tagging", dataclass=FairseqDataclass)
class TaggingCriterion(FairseqCriterion):
    """Cross-entropy, averaged over the words that have a tag."""

    def __init__(self, task):
        super().__init__(task)
        self.vocabulary = task.vocabulary
        self.register_buffer("ambiguous", task.ambiguous, persistent=False)

    def forward(self, model, sample, reduce: bool = True):
        scores = model(**sample["net_input"])  # B T labels
        target = sample["target"]
        loss = F.cross_entropy(
            scores.flatten(0, 1).float(),
            target.flatten(),
            ignore_index=self.vocabulary.tags.pad(),
            reduction="sum" if reduce else "none",
        )
        counts = self.counts(sample["net_input"]["words"], target, model.tags(scores))
        logging_output = {"loss": loss.data, "nsentences": sample["nsentences"], **counts}
        logging_output["ntokens"] = logging_output["sample_size"] = counts["words"]
        return loss, counts["words"], logging_output

    def counts(self, words: Tensor, target: Tensor, found: Tensor) -> dict[str, int]:
        """Count the words and the correctly tagged words of each group."""
        tagged = target != self.vocabulary.tags.pad()
        right = found == target
        groups = {
            "": tagged,
            "oov_": tagged & (words == self.vocabulary.words.unk()),
            "ambiguous_": tagged & self.ambiguous.to(words.device)[words],
        }
        counts = {}
        for name, group in groups.items():
            counts[f"{name}words"] = int(group.sum())
            counts[f"{name}right"] = int((group & right).sum())
        return counts

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log the loss and the accuracy on each group of words."""
        total = totals(logging_outputs)
        metrics.log_scalar("loss", mean_loss(total), total["words"], round=3)
        for prefix, name in GROUPS.items():
            for part in ("words", "right"):
                metrics.log_scalar_sum(f"_{prefix}{part}", total[f"{prefix}{part}"])
            metrics.log_derived(name, lambda meters, prefix=prefix: percentage(meters, prefix))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def percentage(meters, prefix: str) -> float:
    """Return the accuracy on a group in percent, or NaN if the group has no words."""
    words = meters[f"_{prefix}words"].sum
    return round(100 * float(meters[f"_{prefix}right"].sum) / words, 3) if words else math.nan
