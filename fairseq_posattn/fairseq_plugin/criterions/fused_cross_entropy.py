"""The fused_label_smoothed_cross_entropy criterion: fairseq's loss in less time and memory.

The loss and its gradient equal those of label_smoothed_cross_entropy up to rounding errors. fairseq
keeps the logits, the log-probabilities and their gradients in memory, whereas this criterion
overwrites the logits with their gradient. On a CPU, it also computes the output projection itself,
a few rows at a time. Therefore the logits of a whole batch are never in memory at once, and the
logits of padding are never computed.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from fairseq.criterions import label_smoothed_cross_entropy as stock
from fairseq.criterions import register_criterion
from fairseq.models import FairseqDecoder
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from fairseq_posattn.core.label_smoothing import projected_cross_entropy, smoothed_cross_entropy
from fairseq_posattn.core.table_gradient import TableGradient, rows, shared

ONLY_FEATURES = "features_only"  # an argument of fairseq's Transformers
TABLE = "table of the last product"  # sample key for the result of `sharing`


@dataclass
class FusedCrossEntropyConfig(stock.LabelSmoothedCrossEntropyCriterionConfig):
    """Options of the criterion, identical to those of label_smoothed_cross_entropy."""


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=FusedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(stock.LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy; models that return no plain logits use fairseq's own loss.

    The class has the same name as fairseq's class, because fairseq restores the optimizer state of
    a checkpoint only if the names of the criterion classes match.
    """

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
        return not others and gives_scores(model) and gives_features(model)

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


def gives_features(model) -> bool:
    """Return whether a model can return features and has a plain output projection on a CPU.

    GPUs are excluded because one large matrix product is faster there, and half precision because
    each partial sum would be rounded.
    """
    decoder = getattr(model, "decoder", None)
    last = getattr(decoder, "output_projection", None)
    return (
        type(last) is nn.Linear
        and last.bias is None
        and last.weight.device.type == "cpu"
        and last.weight.dtype in (torch.float32, torch.float64)
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
