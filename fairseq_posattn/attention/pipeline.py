"""The fixed order in which mechanisms take part in attention.

scaled scores -> score biases, in the order listed -> mask -> softmax in float32 -> dropout ->
values -> value terms. Core layout: B H Q D and B H Q K; heads are a real axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.context import AttentionContext
from fairseq_posattn.attention.mechanism import Mechanism, ScoreBias, ValueTerm


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism] = (),
    dropout: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """q, k, v: B H Q D -> output B H Q D and, if asked for, the weights B H Q K before dropout."""
    terms = [m for m in mechanisms if isinstance(m, ValueTerm)]
    bias = score_bias(q, ctx, mechanisms)
    if need_weights or terms or ctx.nothing_allowed:
        return explicit_attention(q, k, v, ctx, bias, terms, dropout, need_weights)
    return fused_attention(q, k, v, ctx, bias, dropout), None


def score_bias(q: Tensor, ctx: AttentionContext, mechanisms: Sequence[Mechanism]) -> Tensor | None:
    """The sum of all score biases, broadcastable to B H Q K; None where there is none."""
    total = None
    for mechanism in mechanisms:
        if isinstance(mechanism, ScoreBias):
            bias = mechanism.bias(mechanism.on_heads(q), ctx)
            bias = spread(bias, mechanism.heads, q.size(1))
            total = bias if total is None else total + bias
    return total


def spread(x: Tensor, heads: tuple[int, ...] | None, count: int) -> Tensor:
    """B h ... of some heads -> B H ... with zeros for the others."""
    if heads is None:
        return x
    x = x.expand(-1, len(heads), -1, -1)
    index = torch.tensor(heads, device=x.device)
    return x.new_zeros(x.size(0), count, *x.shape[2:]).index_copy(1, index, x)


def fused_attention(q, k, v, ctx: AttentionContext, bias: Tensor | None, dropout) -> Tensor:
    """torch's own kernel, for whatever does not need the weights themselves."""
    mask = ctx.allowed
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_rate(dropout))


def dropout_rate(dropout: nn.Module | None) -> float:
    """The rate that holds now; fairseq's dropout module may stay on outside training."""
    if dropout is None:
        return 0.0
    on = dropout.training or getattr(dropout, "apply_during_inference", False)
    return dropout.p if on else 0.0


def explicit_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    bias: Tensor | None,
    terms: Sequence[ValueTerm],
    dropout: nn.Module | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The same in single steps, with the weights at hand."""
    weights = softmax_weights(scaled_scores(q, k, bias), ctx)  # B H Q K
    kept = weights if dropout is None else dropout(weights)
    out = kept @ v  # B H Q D
    for term in terms:
        addition = term.value_term(term.on_heads(kept), ctx)
        out = out + spread(addition, term.heads, out.size(1))
    return out, weights if need_weights else None


def scaled_scores(q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """q·k/sqrt(d) + bias: B H Q K."""
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    return scores if bias is None else scores + bias


def softmax_weights(scores: Tensor, ctx: AttentionContext) -> Tensor:
    """Softmax in float32 over the allowed keys; a row with nothing allowed gives zeros."""
    if ctx.allowed is not None:
        # the lowest finite number, not -inf: an empty row must not become NaN, forward or backward
        scores = scores.masked_fill(~ctx.allowed, torch.finfo(scores.dtype).min)
    precise = torch.promote_types(scores.dtype, torch.float32)  # float64 stays as it is
    weights = F.softmax(scores, dim=-1, dtype=precise).type_as(scores)
    return weights.masked_fill(~ctx.allowed, 0.0) if ctx.nothing_allowed else weights
