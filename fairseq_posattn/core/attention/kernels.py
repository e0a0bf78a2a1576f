"""Scores, softmax and output of attention for all heads: what no mechanism takes part in."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.mechanism import at_least_float32


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scaled product of each query with each key, B H Q K."""
    scores: Tensor = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    return scores


def softmax_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax over the allowed keys; a row in which none is allowed gives zeros.

    It is taken in float32 at least and returned in the precision of the scores.
    """
    weights = torch.softmax(softmax_scores(scores, mask), dim=-1).type_as(scores)
    return forbidden_to_zero(weights, mask)


def softmax_scores(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return what the softmax takes: scores in float32 at least, very low where forbidden."""
    if mask is not None:
        # With -inf an empty row would become NaN, forward or backward.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return at_least_float32(scores)


def forbidden_to_zero(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights with zeros where a query may not attend to a key."""
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    only_padding: bool,
    dropout: float,
) -> Tensor:
    """Return the output of torch's fused kernel, which never makes the weights themselves."""
    if bias is not None and mask is not None:
        if q.dtype == torch.float16:  # a sum of biases must not be lower than what is forbidden
            bias = bias.clamp(min=lowest(q.dtype) / 2)
        mask = bias.masked_fill(~mask, lowest(q.dtype))
    elif bias is not None:
        mask = bias
    elif mask is not None and not only_padding:
        # Then every key of some row may be forbidden: a row of a padding piece.
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, lowest(q.dtype))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def dropout_rate(dropout: nn.Module | None) -> float:
    """Return the rate that holds now: fairseq's dropout module may stay on outside of training."""
    if dropout is None:
        return 0.0
    on = dropout.training or getattr(dropout, "apply_during_inference", False)
    return cast(float, dropout.p) if on else 0.0


def lowest(dtype: torch.dtype) -> float:
    """Return a score that gets no weight beside any real one.

    It is half of the lowest number, so that it stays finite when a score is added to it: a row in
    which all keys are forbidden must not become NaN.
    """
    return torch.finfo(dtype).min / 2
