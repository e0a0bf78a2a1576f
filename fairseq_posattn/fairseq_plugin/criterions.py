"""Criterions: fused label-smoothed, tree-supervised and summed cross-entropy."""

# no `from __future__ import annotations`: fairseq reads the types of the options

import contextlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions import label_smoothed_cross_entropy as stock
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqDecoder
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from fairseq_posattn.core.label_smoothing import (
    TableGradient,
    projected_cross_entropy,
    rows,
    shared,
    smoothed_cross_entropy,
)
from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError

ONLY_FEATURES = "features_only"  # an argument of fairseq's Transformers
TABLE = "table of the last product"  # sample key for the result of `sharing`


@dataclass
class FusedCrossEntropyConfig(stock.LabelSmoothedCrossEntropyCriterionConfig):
    """Options of the criterion: --chunked-loss and those of label_smoothed_cross_entropy."""

    chunked_loss: bool = option(
        False,
        "compute the logits in chunks on GPUs and in bfloat16 as well, which takes less memory; "
        "on CPUs in float32, this is the default",
    )


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=FusedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(stock.LabelSmoothedCrossEntropyCriterion):
    """fairseq's label-smoothed cross-entropy in less time and memory, equal up to rounding errors.

    fairseq keeps the logits, the log-probabilities and their gradients in memory, whereas this
    criterion overwrites the logits with their gradient. On a CPU, it also computes the output
    projection itself, a few rows at a time. Therefore the logits of a whole batch are never in
    memory at once, and the logits of padding are never computed. Models that return no plain logits
    use fairseq's own loss.

    The class has the same name as fairseq's class, because fairseq restores the optimizer state of
    a checkpoint only if the names of the criterion classes match.
    """

    def __init__(  # fairseq passes options by parameter name
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        chunked_loss=False,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.chunked_loss = chunked_loss

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and logging output."""
        if not self.takes_features(model, reduce):
            return super().forward(model, sample, reduce)
        inputs = {**sample["net_input"], ONLY_FEATURES: True}
        with sharing(model) as table:
            return super().forward(model, {**sample, "net_input": inputs, TABLE: table}, reduce)

    def takes_features(self, model, reduce: bool) -> bool:
        """Return whether the loss can be computed from the decoder's features.

        This is possible if no option needs the logits and the model can return features.
        """
        others = not reduce or self.report_accuracy or self.ignore_prefix_size
        return not others and gives_scores(model) and gives_features(model, self.chunked_loss)

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the summed loss and the summed negative log-likelihood of the target."""
        if not reduce or self.ignore_prefix_size or not gives_scores(model):
            return super().compute_loss(model, net_output, sample, reduce)
        found = net_output[0].flatten(0, -2)
        targets = model.get_targets(sample, net_output).flatten()
        if TABLE in sample:
            table, total = sample[TABLE]
            return projected_cross_entropy(found, table, targets, self.eps, self.padding_idx, total)
        return smoothed_cross_entropy(found, targets, self.eps, self.padding_idx)


def gives_scores(model) -> bool:
    """Return whether a model returns plain logits over the vocabulary."""
    decoder = getattr(model, "decoder", None)
    plain = getattr(type(decoder), "get_normalized_probs", None)
    adaptive = getattr(decoder, "adaptive_softmax", None)
    return plain is FairseqDecoder.get_normalized_probs and adaptive is None


def gives_features(model, chunked: bool = False) -> bool:
    """Return whether a model can return features and has a plain output projection on a CPU.

    chunked: whether GPUs and bfloat16 are also allowed. By default, they are excluded because one
        large matrix product is faster there. In float16, the gradients, which are computed before
        the loss is scaled, would be too small.
    """
    decoder = getattr(model, "decoder", None)
    last = getattr(decoder, "output_projection", None)
    return (
        type(last) is nn.Linear
        and last.bias is None
        and (chunked or last.weight.device.type == "cpu")
        and last.weight.dtype in (torch.float32, torch.float64, *([torch.bfloat16] * chunked))
        and getattr(type(decoder), "output_layer", None) is TransformerDecoderBase.output_layer
        # The wrapper for distributed training would treat the projection as unused.
        and not getattr(model, "find_unused_parameters", False)
        and ONLY_FEATURES in inspect.signature(unwrapped(model).forward).parameters
    )


@contextlib.contextmanager
def sharing(model) -> Iterator[tuple[Tensor, TableGradient]]:
    """Yield the weight of the output projection and the object that accumulates its gradient.

    Embeddings that are tied to the output projection add their gradients to the same object.
    """
    weight, total = model.decoder.output_projection.weight, TableGradient()
    table = shared(weight, total) if torch.is_grad_enabled() else weight
    embeddings = [m for m in model.modules() if type(m) is nn.Embedding and m.weight is weight]
    try:
        for embedding in embeddings if table is not weight else ():
            lookup = partial(rows, table, padding=embedding.padding_idx, total=total)
            embedding.forward = lookup  # type: ignore[method-assign]  # removed below
        yield table, total
    finally:
        for embedding in embeddings:
            vars(embedding).pop("forward", None)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model without fairseq's wrappers for distributed training."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model


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
    """A criterion that also trains heads to attend to parents.

        loss = label-smoothed cross-entropy + tree_loss * n * mean over the pieces of -log a_i,t(i)

    The cross-entropy is summed over the n target pieces, even with --sentence-avg. The
    documentation of the tree_supervised mechanism defines a_i,t(i).
    """

    def __init__(  # fairseq passes options by parameter name
        self,
        task,
        sentence_avg,
        label_smoothing,
        tree_loss,
        ignore_prefix_size=0,
        report_accuracy=False,
        chunked_loss=False,
    ):
        others = (ignore_prefix_size, report_accuracy, chunked_loss)
        super().__init__(task, sentence_avg, label_smoothing, *others)
        if not 0 <= tree_loss < math.inf:
            raise InputError(f"--tree-loss {tree_loss}: expected a finite number >= 0")
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


UNDIVIDED = 0


@register_criterion("summed_cross_entropy", dataclass=FairseqDataclass)
class SummedCrossEntropyCriterion(FairseqCriterion):
    """Cross-entropy summed over all words, as in Dagan (2019).

    Use it with --clip-norm, because its gradient grows with the batch. fairseq divides the gradient
    by the sample size, summed over all processes and all batches of an update (--update-freq). This
    criterion returns a sample size of 0, so that the trainer divides by 1 instead. As in fairseq's
    cross_entropy, the loss (in base 2) and the perplexity are reported per word.
    """

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
