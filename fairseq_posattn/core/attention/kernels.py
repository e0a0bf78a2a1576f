"""Attention kernels, and helper functions for subsets of heads and copies of keys."""

from __future__ import annotations

from typing import cast, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.mechanism import Heads, at_least_float32


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the dot products of queries and keys, divided by sqrt(d): (B, H, Q, K)."""
    scores: Tensor = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    return scores


def by_query(x: Tensor) -> Tensor:
    """Reorder (B, H, Q, N) to (Q, B, H, N), the order in memory of projected queries."""
    return x.permute(2, 0, 1, 3)


def by_head(x: Tensor) -> Tensor:
    """Undo `by_query`."""
    return x.permute(1, 2, 0, 3)


def times(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply x, (B, H, Q, N), by one matrix per head, or by one for all heads, (1, N, M)."""
    if len(matrices) == 1:
        return by_head(by_query(x) @ matrices.squeeze(0))
    products = x.permute(1, 2, 0, 3).flatten(1, 2) @ matrices  # H QB M
    split: Tensor = products.unflatten(1, (x.size(2), x.size(0)))
    return split.permute(2, 0, 1, 3)


def softmax_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax over allowed keys, computed in at least float32; empty rows are zero."""
    # torch computes the softmax of half precision in float32
    return forbidden_to_zero(torch.softmax(lowest_if_masked(scores, mask), dim=-1), mask)


def softmax_scores(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the scores in at least float32, with the lowest finite value for masked keys."""
    return at_least_float32(lowest_if_masked(scores, mask))


def lowest_if_masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    # -inf would give NaN in empty rows, in the forward or backward pass.
    return scores if mask is None else torch.where(mask, scores, torch.finfo(scores.dtype).min)


def forbidden_to_zero(weights: Tensor, mask: Tensor | None) -> Tensor:
    return weights if mask is None else torch.where(mask, weights, 0.0)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    only_padding: bool,
    dropout: float,
) -> Tensor:
    """Return the output of torch's fused kernel, which does not materialise the weights."""
    if bias is not None and mask is not None:
        if q.dtype == torch.float16:  # a sum of biases must not be lower than a masked score
            bias = bias.clamp(min=lowest(q.dtype) / 2)
        mask = torch.where(mask, bias, lowest(q.dtype))
    elif bias is not None:
        mask = bias
    elif mask is not None and not only_padding:
        # A boolean mask might give NaN in rows without any allowed key, such as padding.
        mask = torch.where(mask, q.new_zeros(()), lowest(q.dtype))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def dropout_rate(dropout: nn.Module | None) -> float:
    """Return the current dropout rate; fairseq's dropout may also be active during inference."""
    if dropout is None:
        return 0.0
    on = dropout.training or getattr(dropout, "apply_during_inference", False)
    return cast(float, dropout.p) if on else 0.0


def lowest(dtype: torch.dtype) -> float:
    """Return half the lowest finite value, for masked keys; its sum with a score is finite."""
    return torch.finfo(dtype).min / 2


def padded_length(length: int, step: int) -> int:
    """Round up to a multiple of `step` or, if larger, 1/8 of the next power of two."""
    step = max(step, (1 << (length - 1).bit_length()) // 8)
    return -(-length // step) * step


def spread(x: Tensor, heads: Heads, count: int, elsewhere: float = 0) -> Tensor:
    """Expand x, (B, h, ...), from `heads` to `count` heads; the others get `elsewhere`."""
    x = x[(None,) * (4 - x.dim())]
    if heads is None:
        return x
    x = x.expand(-1, len(heads), -1, -1)
    return put_back(x.new_full((x.size(0), count, *x.shape[2:]), elsewhere), x, heads)


def put_back(whole: Tensor, part: Tensor, heads: Heads) -> Tensor:
    """Return `whole`, (B, H, ...), with the values of `part`, (B, h, ...), for `heads`."""
    if heads is None:
        return part.type_as(whole)  # autocast or a mechanism may have changed its type
    # Indexing by a tensor would require a copy to the device and a synchronisation.
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
    """Repeat the last axis of x for each copy of the keys: (..., K) becomes (..., copies·K)."""
    return x if x is None or copies == 1 or x.size(-1) == 1 else x.repeat(1, 1, 1, copies)


def sum_copies(weights: Tensor, copies: int) -> Tensor:
    """Sum weights over copies of keys: (B, H, Q, copies·K) becomes (B, H, Q, K)."""
    if copies == 1:
        return weights
    by_copy: Tensor = weights.unflatten(-1, (copies, -1))
    return by_copy.sum(dim=-2)
