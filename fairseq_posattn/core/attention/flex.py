"""Window and block attention for long inputs with FlexAttention, on GPUs.

FlexAttention (Dong et al. 2024) compiles a kernel that skips all tiles of 128 queries and 128 keys
without an allowed pair. Biases that depend only on the distance are read from a table with an entry
per head and distance, which also receives their gradients. Inputs are padded to a small set of
lengths, and the kernel is compiled once for each of them.

This path is used for inputs of at least `SHORTEST` pieces, because on an H200 (bfloat16, torch
2.11, 4,100 pieces, `window(size=11)`), FlexAttention took 0.35 times as long as our own path for
inference, and 0.62 for the forward and backward pass. Other lengths, windows with a bias, and
`block` remain to be measured with recipes/benchmark/gpu.sh.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext, is_compiling
from fairseq_posattn.core.attention.kernels import padded_length
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.attention.stages import ScoreBias, ScoreMask

SHORTEST = 4096
DEVICES = ("cuda",)
TILE = 128
LEAST_WIDTH = 16  # of a head, for the kernel
COMPILED = 64  # compiled kernels: shapes, and combinations of mechanisms

try:
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    AVAILABLE = "seq_lengths" in inspect.signature(BlockMask.from_kv_blocks).parameters
except ImportError:  # older versions of torch
    AVAILABLE = False


def takes(q: Tensor, ctx: AttentionContext, dropout: float) -> bool:
    """Return whether FlexAttention supports these queries and is expected to be faster.

    It is not used in compiled layers (--compile), where it is untested.
    """
    supported = AVAILABLE and q.device.type in DEVICES and not (dropout or is_compiling())
    is_long = ctx.is_square and ctx.length >= SHORTEST and q.size(-1) >= LEAST_WIDTH
    return supported and is_long and not ctx.nothing_allowed


def limits(ctx: AttentionContext, at_work: Sequence[Mechanism]) -> tuple[int, Tensor | None] | None:
    """Return `ScoreMask.limits` of the only mask, or None if other mechanisms prevent this path."""
    masks = [m for m in at_work if isinstance(m, ScoreMask) and m.forbids(m.options)]
    others = [m for m in at_work if m not in masks]
    if len(masks) != 1 or not all(isinstance(m, ScoreBias) and m.by_distance for m in others):
        return None
    return masks[0].limits(ctx)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ctx: AttentionContext,
    within: tuple[int, Tensor | None],
    bias: Callable[[AttentionContext], Tensor | None],
) -> Tensor:
    """Return the output of FlexAttention, of shape (B, H, T, D).

    within: the result of `limits`.
    bias: a function that returns the sum of all biases, of shape (1, H, 1, K), for the single query
        of a context, or None if there are none.
    """
    reach, groups = min(within[0], ctx.length - 1), within[1]
    ahead = 0 if ctx.causal else reach
    length = padded_length(ctx.length, TILE)
    more = length - ctx.length
    real = torch.ones_like(q[:, 0, :, 0], dtype=torch.bool) if ctx.real is None else ctx.real
    # padding is group 0, to which only padding attends
    group = real.long() if groups is None else torch.where(real, groups + 1, 0)
    group = F.pad(group, (0, more)).expand(len(q), -1)
    table = bias(AttentionContext(2 * reach + 1, q.device, None, None, 1, ctx.causal, first=reach))

    def allowed(sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        near = (query - key <= reach) & (key - query <= ahead)
        return near & (group[sentence, key] == group[sentence, query])

    def biased(score: Tensor, sentence: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        assert table is not None
        return score + table[0, head, 0, (key - query).clamp(-reach, reach) + reach]

    mask = copy.copy(tiles(length, reach, ahead, str(q.device)))
    mask.mask_mod = allowed
    q, k, v = (F.pad(x, (0, 0, 0, more)).contiguous() for x in (q, k, v))
    out: Tensor = compiled()(q, k, v, None if table is None else biased, mask)
    return out[:, :, : ctx.length]


@functools.cache
def compiled() -> Any:
    """Return FlexAttention, compiled separately for each shape."""
    import torch._dynamo.config as dynamo

    dynamo.recompile_limit = max(COMPILED, dynamo.recompile_limit)
    return torch.compile(flex_attention, dynamic=False)


@functools.lru_cache(32)
def tiles(length: int, reach: int, ahead: int, device: str) -> Any:
    """Return a mask with the tiles that contain pairs with -reach <= key - query <= ahead."""
    numbers = torch.arange(-(-length // TILE), device=device)
    apart = (numbers - numbers[:, None]) * TILE  # from a tile of queries to a tile of keys
    needed = ((apart + TILE > -reach) & (apart - TILE < ahead))[None, None]
    counts, order = needed.sum(-1), needed.long().argsort(dim=-1, descending=True, stable=True)
    return BlockMask.from_kv_blocks(
        counts.int(), order.int(), BLOCK_SIZE=TILE, seq_lengths=(length, length)
    )
