"""Scores, softmax and output of attention, and what holds for some heads or copies of keys."""

from __future__ import annotations

from typing import cast, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.mechanism import Heads, at_least_float32


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


def spread(x: Tensor, heads: Heads, count: int, elsewhere: float = 0) -> Tensor:
    """Return x, B h ... of some heads, as B H ... of all heads, with a constant in the others."""
    x = x[(None,) * (4 - x.dim())]
    if heads is None:
        return x
    x = x.expand(-1, len(heads), -1, -1)
    return put_back(x.new_full((x.size(0), count, *x.shape[2:]), elsewhere), x, heads)


def put_back(whole: Tensor, part: Tensor, heads: Heads) -> Tensor:
    """Return the whole, B H ..., with those heads replaced by the part, B h ..."""
    if heads is None:
        return part.type_as(whole)  # autocast, or a mechanism, may have changed its type
    # An index on the device would have to be sent there first, for which the program waits.
    places, part = {head: k for k, head in enumerate(heads)}, part.type_as(whole)
    return torch.cat(
        [
            part[:, places[head], None] if head in places else whole[:, head, None]
            for head in range(whole.size(1))
        ],
        dim=1,
    )


@overload
def repeat_keys(x: Tensor, copies: int) -> Tensor: ...
@overload
def repeat_keys(x: Tensor | None, copies: int) -> Tensor | None: ...
def repeat_keys(x: Tensor | None, copies: int) -> Tensor | None:
    """Return x, ... K, as ... copies·K, since what holds for a key holds for each of its copies."""
    return x if x is None or copies == 1 or x.size(-1) == 1 else x.repeat(1, 1, 1, copies)


def sum_copies(weights: Tensor, copies: int) -> Tensor:
    """Return the weight of each key, B H Q K, as the sum over its copies."""
    if copies == 1:
        return weights
    by_copy: Tensor = weights.unflatten(-1, (copies, -1))
    return by_copy.sum(dim=-2)
