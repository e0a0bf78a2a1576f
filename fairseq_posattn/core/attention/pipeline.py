"""Compute attention, calling the stages of all mechanisms in a fixed order.

First, queries, keys and values are transformed, and keys and values are expanded. Biases and other
changes are applied to the scaled scores in the order of the specification. All masks are combined,
supervised heads compute losses, and the softmax uses at least float32. Finally, weights are
changed (the mask is reapplied after each change), dropout is applied, the weighted sum of the
values is computed, and value terms are added.

Tensors have the shape (B, H, Q, D) or (B, H, Q, K), with heads as a separate axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TypeVar

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention import flex
from fairseq_posattn.core.attention.bands import Bands
from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import (
    dropout_rate,
    forbidden_to_zero,
    fused_attention,
    lowest,
    put_back,
    repeat_keys,
    scaled_scores,
    softmax_scores,
    softmax_weights,
    spread,
    sum_copies,
)
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.attention.stages import (
    FastPath,
    KeyBias,
    KeyExpansion,
    QKVTransform,
    ScoreBias,
    ScoreChange,
    ScoreMask,
    ValueTerm,
    WeightChange,
)
from fairseq_posattn.core.attention.supervised import Supervised

BIASES = (ScoreBias, KeyBias)
ON_SCORES = (
    *(KeyExpansion, *BIASES, ScoreChange, ScoreMask, Supervised),
    *(WeightChange, ValueTerm),
)
Stage = TypeVar("Stage", bound=Mechanism)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism] = (),
    dropout: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the output and, if requested, the weights before dropout (otherwise None).

        out, _ = attend(q, k, v, ctx, mechanisms)

    q and the output have the shape (B, H, Q, D), k and v the shape (B, H, K, D), and the weights
    the shape (B, H, Q, K). If the weights are requested, no fused kernel is used.
    """
    for transform in of_stage(mechanisms, QKVTransform):
        q, k, v = transformed(transform, q, k, v, ctx)
    return attend_transformed(q, k, v, ctx, mechanisms, dropout, need_weights)


def attend_transformed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism] = (),
    dropout: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what `attend` returns, given queries, keys and values after all transforms."""
    for path in () if need_weights else (flex_path, fast_path):
        out = path(q, k, v, ctx, mechanisms, dropout)
        if out is not None:
            return out, None
    reach = None if need_weights else common_reach(ctx, mechanisms)
    if reach is not None:
        bands = Bands.of(ctx, reach, len(q))
        parts = bands.queries(q), bands.keys(k), bands.keys(v)
        out, _ = attend_transformed(*parts, bands.context, mechanisms, dropout)
        return bands.join(out), None
    single = k  # biases are computed for the original keys, not for their copies
    copies, mask = 1, allowed_pairs(q, ctx, mechanisms)
    for expansion in expansions(mechanisms):
        k, v, mask = expanded(expansion, k, v, mask)
        copies *= expansion.copies
    if need_weights or not is_fused(ctx, mechanisms):
        return explicit_attention(
            q, k, v, ctx, mechanisms, mask, copies, dropout, need_weights, single
        )
    biases = [spread_bias(m, q, single, ctx) for m in mechanisms if isinstance(m, BIASES)]
    bias = repeat_keys(sum(biases[1:], start=biases[0]) if biases else None, copies)
    only_padding = mask is ctx.allowed
    if bias is not None and (padding := ctx.padding_bias(mask, q.dtype)) is not None:
        bias, mask = bias + padding, None
    return fused_attention(q, k, v, bias, mask, only_padding, dropout_rate(dropout)), None


def of_stage(
    mechanisms: Iterable[nn.Module], stage: type[Stage] | tuple[type[Stage], ...]
) -> list[Stage]:
    """Return the mechanisms that act in the given stage or stages, in order."""
    return [m for m in mechanisms if isinstance(m, stage)]


def transformed(
    mechanism: QKVTransform, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
) -> list[Tensor]:
    """Apply a transform to the heads of a mechanism; return q, k and v of all heads."""
    wholes = (q, k, v)
    part = mechanism.on_heads
    parts = mechanism.transform(part(q), part(k), part(v), ctx)
    return [put_back(w, p, mechanism.heads) for w, p in zip(wholes, parts, strict=True)]


def transformed_queries(
    mechanism: QKVTransform, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
) -> Tensor:
    """Return the transformed queries of all heads, given keys and values after the transform."""
    part = mechanism.on_heads
    return put_back(q, mechanism.transform_queries(part(q), part(k), part(v), ctx), mechanism.heads)


def expansions(mechanisms: Iterable[nn.Module]) -> list[KeyExpansion]:
    """Return the mechanisms that expand the keys of this layer."""
    return [m for m in of_stage(mechanisms, KeyExpansion) if m.copies > 1]


def expanded(
    mechanism: KeyExpansion, k: Tensor, v: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys, values and mask after a mechanism has added copies of each key."""
    k, v, exists = mechanism.expand(k, v)
    return k, v, exists if mask is None else repeat_keys(mask, mechanism.copies) & exists


def fast_path(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism],
    dropout: nn.Module | None,
) -> Tensor | None:
    """Return the output of `FastPath.fast_path`, or None if this path cannot be used."""
    at_work = of_stage(mechanisms, ON_SCORES)
    if len(at_work) == 1 and isinstance(at_work[0], FastPath):
        return at_work[0].fast_path(q, k, v, ctx, dropout_rate(dropout))
    return None


def flex_path(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism],
    dropout: nn.Module | None,
) -> Tensor | None:
    """Return the output of FlexAttention, or None if it cannot be used or would be slower."""
    if not flex.takes(q, ctx, dropout_rate(dropout)):
        return None
    at_work = of_stage(mechanisms, ON_SCORES)
    limits = flex.limits(ctx, at_work)
    if limits is None:
        return None

    def bias(of_one_query: AttentionContext) -> Tensor | None:
        one = q[:1, :, :1]
        found = [spread_bias(m, one, one, of_one_query) for m in of_stage(at_work, ScoreBias)]
        return sum(found[1:], start=found[0]) if found else None

    return flex.attention(q, k, v, ctx, limits, bias)


def common_reach(ctx: AttentionContext, mechanisms: Sequence[Mechanism]) -> int | None:
    """Return the smallest reach of all masks, or None if attention cannot be banded."""
    at_work = of_stage(mechanisms, ON_SCORES)
    if not ctx.is_square or not all(m.banded for m in at_work):
        return None
    found = [reach for m in of_stage(at_work, ScoreMask) if (reach := m.reach(ctx)) is not None]
    return min(found) if found else None


def bias_of(mechanism: ScoreBias | KeyBias, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
    """Return the bias of a mechanism for its heads."""
    own = mechanism.on_heads(q)
    if isinstance(mechanism, KeyBias):
        return mechanism.key_bias(own, mechanism.on_heads(k), ctx)
    return mechanism.bias(own, ctx)


def spread_bias(
    mechanism: ScoreBias | KeyBias, q: Tensor, k: Tensor, ctx: AttentionContext
) -> Tensor:
    """Return the bias of a mechanism for all heads, in the precision of the scores."""
    bias = bias_of(mechanism, q, k, ctx)
    if bias.dtype != q.dtype:
        wider = bias.to(torch.promote_types(bias.dtype, q.dtype))
        bias = wider.clamp(min=lowest(q.dtype)).type_as(q)
    return spread(bias, mechanism.heads, q.size(1))


def allowed_pairs(
    q: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism],
) -> Tensor | None:
    """Return the conjunction of all masks, broadcastable to (B, H, Q, K), or None."""
    masks = []
    for m in of_stage(mechanisms, ScoreMask):
        own = m.allowed(m.on_heads(q), ctx)
        masks.append(spread(own, m.heads, q.size(1), elsewhere=True))
    masks += [mask for mask in (ctx.past, ctx.allowed) if mask is not None]
    return reduce(and_, masks) if masks else None


def is_fused(ctx: AttentionContext, mechanisms: Sequence[Mechanism]) -> bool:
    """Return whether torch's fused kernel supports all mechanisms of a layer."""
    sees_itself = all(m.keeps_self for m in of_stage(mechanisms, ScoreMask))
    may_be_empty = ctx.nothing_allowed or not sees_itself  # a piece without any allowed key
    return all(m.fused for m in mechanisms) and not may_be_empty


def explicit_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    mechanisms: Sequence[Mechanism],
    mask: Tensor | None,
    copies: int,
    dropout: nn.Module | None,
    need_weights: bool,
    single: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Compute output and weights step by step, for mechanisms that need scores or weights.

    copies: number of copies of each key in k and v.
    single: the keys without their copies.
    """
    scores = scaled_scores(q, k)  # B H Q K, or copies·K
    for m in of_stage(mechanisms, (*BIASES, ScoreChange)):
        if isinstance(m, BIASES):
            scores = scores + repeat_keys(spread_bias(m, q, single, ctx), copies)
        if isinstance(m, ScoreChange):
            scores = changed(m, m.change_scores, scores, q, ctx, copies)
    for supervised in of_stage(mechanisms, Supervised):
        of_heads = supervised.on_heads(softmax_scores(scores, mask))
        supervised.found = supervised.supervise(of_heads, ctx)
    if (padding := ctx.padding_bias(mask, scores.dtype)) is not None:
        weights = softmax_weights(scores + padding, None)
    else:
        weights = softmax_weights(scores, mask)
    for m in of_stage(mechanisms, WeightChange):
        weights = changed(m, m.change_weights, weights, q, ctx, copies)
        weights = forbidden_to_zero(weights, mask)
    kept: Tensor = weights if dropout is None else dropout(weights)
    out = kept @ v  # B H Q D
    for term in of_stage(mechanisms, ValueTerm):
        of_term = term.on_heads(sum_copies(kept, copies))
        # in this order, the sum has the layout of the term, which suits the output projection
        out = spread(term.value_term(of_term, ctx), term.heads, out.size(1)) + out
    return out, sum_copies(weights, copies) if need_weights else None


def changed(
    mechanism: Mechanism,
    change: Callable[[Tensor, Tensor, AttentionContext], Tensor],
    x: Tensor,
    q: Tensor,
    ctx: AttentionContext,
    copies: int,
) -> Tensor:
    """Apply a change to scores or weights, separately for each copy of the keys."""
    q = mechanism.on_heads(q)
    parts = [change(part, q, ctx) for part in mechanism.on_heads(x).chunk(copies, dim=-1)]
    return put_back(x, parts[0] if copies == 1 else torch.cat(parts, dim=-1), mechanism.heads)
