"""Register fused_label_smoothed_cross_entropy: fairseq's loss with less time and memory.

The value is that of label_smoothed_cross_entropy but for rounding, and so is the gradient. fairseq
holds the probabilities of all words and their gradients beside the scores; here the gradient takes
the place of the scores. On a CPU the criterion projects the features itself, some rows at a time,
so that there are never the scores of a whole batch, nor any of padding.
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

ONLY_FEATURES = "features_only"  # what fairseq's Transformers call this option of theirs
TABLE = "table of the last product"  # where a batch keeps it for the loss


@dataclass
class FusedCrossEntropyConfig(stock.LabelSmoothedCrossEntropyCriterionConfig):
    """These are the options of the criterion fused_label_smoothed_cross_entropy."""


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=FusedCrossEntropyConfig)
class LabelSmoothedCrossEntropyCriterion(stock.LabelSmoothedCrossEntropyCriterion):
    """Computes the loss from the scores; where a model gives none, fairseq's way is taken.

    It has the name of fairseq's class because fairseq asks for the name in a checkpoint before it
    goes on with the optimiser's state in it.
    """

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and what is logged; the model may leave the last product to
        the loss."""
        if not self.takes_features(model, reduce):
            return super().forward(model, sample, reduce)
        inputs = {**sample["net_input"], ONLY_FEATURES: True}
        with sharing(model) as table:
            return super().forward(model, {**sample, "net_input": inputs, TABLE: table}, reduce)

    def takes_features(self, model, reduce: bool) -> bool:
        """Return whether nothing but the loss needs the scores of a model."""
        others = not reduce or self.report_accuracy or self.ignore_prefix_size
        return not others and gives_scores(model) and gives_features(model)

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the summed loss, and the negative log likelihood of the target."""
        if not reduce or self.ignore_prefix_size or not gives_scores(model):
            return super().compute_loss(model, net_output, sample, reduce)
        found = net_output[0].flatten(0, -2)
        targets = model.get_targets(sample, net_output).flatten()
        if TABLE in sample:
            table, total = sample[TABLE]
            return projected_cross_entropy(found, table, targets, self.eps, self.padding_idx, total)
        return smoothed_cross_entropy(found, targets, self.eps, self.padding_idx)


def gives_scores(model) -> bool:
    """Return whether the output of a model is scores of all words, before any softmax."""
    decoder = getattr(model, "decoder", None)
    plain = getattr(type(decoder), "get_normalized_probs", None)
    adaptive = getattr(decoder, "adaptive_softmax", None)
    return plain is FairseqDecoder.get_normalized_probs and adaptive is None


def gives_features(model) -> bool:
    """Return whether a model on a CPU can leave out the last product, which is a plain one.

    Elsewhere one large product is faster. Half precision would round each of the sums.
    """
    decoder = getattr(model, "decoder", None)
    last = getattr(decoder, "output_projection", None)
    return (
        type(last) is nn.Linear
        and last.bias is None
        and last.weight.device.type == "cpu"
        and last.weight.dtype in (torch.float32, torch.float64)
        and getattr(type(decoder), "output_layer", None) is TransformerDecoderBase.output_layer
        # The wrapper of several processes would take the last product for one that is not used.
        and not getattr(model, "find_unused_parameters", False)
        and ONLY_FEATURES in inspect.signature(unwrapped(model).forward).parameters
    )


@contextlib.contextmanager
def sharing(model) -> Iterator[tuple[Tensor, TableGradient]]:
    """Let all embeddings in the table of the last product add their gradients to its own."""
    weight, total = model.decoder.output_projection.weight, TableGradient()
    table = shared(weight, total) if torch.is_grad_enabled() else weight
    embeddings = [m for m in model.modules() if type(m) is nn.Embedding and m.weight is weight]
    try:
        for embedding in embeddings if table is not weight else ():
            lookup = partial(rows, table, padding=embedding.padding_idx, total=total)
            embedding.forward = lookup  # type: ignore[method-assign]  # until the batch is done
        yield table, total
    finally:
        for embedding in embeddings:
            vars(embedding).pop("forward", None)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model without the wrappers that fairseq puts around it for several processes."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model
