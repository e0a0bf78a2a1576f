"""Attention within a window, block by block: time and memory linear in the length.

The queries of a block see the keys of the block and `reach` more on either side: the same result
as the whole square of scores under the window's mask. That copies the keys which several blocks or
several heads see; so the blocks are taken in parts small enough for a processor's cache, and the
backward pass makes each part again instead of keeping it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention.pipeline import lowest

# Queries of a block, or half of the reach where that is more, and of a part. CPU: measured with
# windows of 3, 11, 101 and 511 keys at 4,096 pieces; other blocks from 8 to 512 gain 12 % at most
# and lose up to twice the time, parts of 512 gain nothing.
# CUDA: not measured; the tile of torch's kernel, and parts that outlast the start of a kernel.
SIZES = {"cpu": (16, 256), "cuda": (64, 16384)}


def windowed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    exists: Tensor,
    reach: int,
    real: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """q, k, v: B H T D; exists: N H, which of the N heads around a head there are; real: B T or
    None -> B H T D."""
    batch, _, length, _ = q.shape
    tiling = Tiling.of(q, reach, len(exists))
    if real is None:
        real = torch.ones(1, length, dtype=torch.bool, device=q.device)
    ends = (
        tiling.reach,
        tiling.reach + -length % tiling.rows,
    )  # so that the last part is a whole one too
    real = F.pad(real, ends).expand(batch, -1)  # B T'
    k, v = (F.pad(x, (0, 0, *ends, tiling.copies // 2, tiling.copies // 2)) for x in (k, v))
    q = F.pad(q, (0, 0, 0, -length % tiling.rows)) if length % tiling.rows else q
    biases = (tiling.band(exists, causal, q.dtype), forbidding(real, q.dtype))
    args = (q, k, v, *biases, tiling, dropout)
    out: Tensor = Blockwise.apply(*args)  # type: ignore[no-untyped-call]  # torch gives it no types
    return out[:, :, :length]


@dataclass(frozen=True)
class Tiling:
    """How a batch falls into parts, of some sentences and some rows, and these into blocks."""

    reach: int
    copies: int  # N
    block: int  # I queries, which see J keys
    rows: int  # of a part: R = G·I
    sentences: int  # of a part: b

    @classmethod
    def of(cls, q: Tensor, reach: int, copies: int) -> Tiling:
        length = q.size(2)
        reach = min(reach, length - 1)
        least, part = SIZES.get(q.device.type, SIZES["cuda"])
        block = max(least, reach // 2)
        parts = -(-length // max(part, block))
        rows = block * -(-length // (parts * block))  # parts of about one size: little to fill up
        return cls(reach, copies, block, rows, max(1, part // rows))

    @property
    def keys(self) -> int:
        return self.block + 2 * self.reach

    def parts(self, q: Tensor) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Where each part lies among the queries, and among the padded keys."""
        for sentence in range(0, q.size(0), self.sentences):
            for row in range(0, q.size(2), self.rows):
                some, end = slice(sentence, sentence + self.sentences), row + self.rows
                beyond = end + 2 * self.reach
                yield (some, slice(None), slice(row, end)), (some, slice(None), slice(row, beyond))

    def band(self, exists: Tensor, causal: bool, dtype: torch.dtype) -> Tensor:
        """1 H I N·J, or 1 1 I J where all heads are alike: what forbids the keys out of reach."""
        exists = exists if self.copies > 1 else exists[:, :1]
        query = torch.arange(self.block, device=exists.device)
        key = torch.arange(self.keys, device=exists.device) - self.reach
        distance = key - query[:, None]
        near = (distance >= -self.reach) & (distance <= (0 if causal else self.reach))  # I J
        return forbidding((near[:, None] & exists.T[:, None, :, None]).flatten(2), dtype)[None]

    def blocks(self, x: Tensor) -> Tensor:
        """b H R D -> b·G H I D"""
        rows: Tensor = x.unflatten(2, (-1, self.block))  # b H G I D
        return rows.transpose(1, 2).flatten(0, 1)

    def join(self, x: Tensor, like: Tensor) -> Tensor:
        """b·G H I D -> b H R D"""
        blocks: Tensor = x.unflatten(0, (len(like), -1))  # b G H I D
        return blocks.transpose(1, 2).flatten(2, 3)

    def windows(self, x: Tensor) -> Tensor:
        """b H+N-1 R+2·reach D -> b·G H N·J D: the keys that each block sees."""
        x = x.unfold(2, self.keys, self.block).unfold(1, self.copies, 1)  # b H G D J N
        return x.permute(0, 2, 1, 5, 4, 3).flatten(3, 4).flatten(0, 1)

    def add_windows(self, x: Tensor, part: Tensor) -> None:
        """The way back, for gradients: b·G H N·J D is added to b H+N-1 R+2·reach D."""
        heads = part.size(1)
        part = part.view(len(x), -1, heads, self.copies, self.keys, x.size(-1))  # b G H N J D
        part = part.permute(3, 0, 2, 1, 5, 4)  # N b H G D J
        apart = min(-(-self.keys // self.block), part.size(3))  # blocks that share no key
        for n in range(self.copies):
            for g in range(apart):
                rows = x[:, n : n + heads, g * self.block :]
                rows.unfold(2, self.keys, apart * self.block).add_(part[n, :, :, g::apart])


class Blockwise(torch.autograd.Function):
    """q: B H T D, T whole parts; k, v: B H+N-1 T' D -> B H T D."""

    @staticmethod
    def forward(
        ctx: Any,  # torch's, on which anything may be kept
        q: Tensor,
        k: Tensor,
        v: Tensor,
        band: Tensor,
        padding: Tensor,
        tiling: Tiling,
        dropout: float,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, band, padding)
        ctx.tiling, ctx.dropout = tiling, dropout
        ctx.random = random_state(q.device) if dropout else None
        out = torch.empty_like(q)
        for q_slice, kv_slice in tiling.parts(q):
            part = tile_inputs(q_slice, kv_slice, q, k, v, band, padding, tiling)
            out[q_slice] = tiling.join(attention(*part, dropout), out[q_slice])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, band, padding = ctx.saved_tensors
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        tiling: Tiling = ctx.tiling
        with replayed(ctx.random, q.device) if ctx.dropout else nullcontext():
            for q_slice, kv_slice in tiling.parts(q):
                part = tile_inputs(q_slice, kv_slice, q, k, v, band, padding, tiling)
                changes = gradients(*part, ctx.dropout, tiling.blocks(of_out[q_slice]))
                of_q[q_slice] = tiling.join(changes[0], of_q[q_slice])
                tiling.add_windows(of_k[kv_slice], changes[1])
                tiling.add_windows(of_v[kv_slice], changes[2])
        return of_q, of_k, of_v, None, None, None, None


def tile_inputs(
    q_slice: tuple[slice, ...],
    kv_slice: tuple[slice, ...],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    band: Tensor,
    padding: Tensor,
    tiling: Tiling,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A part's queries b·G H I D, keys and values b·G H N·J D, and what is added to its scores."""
    some, _, rows = kv_slice
    bias = padding[some, rows].unfold(1, tiling.keys, tiling.block).flatten(0, 1)  # b·G J
    bias = band + bias.repeat(1, tiling.copies)[:, None, None]  # b·G H I N·J
    return tiling.blocks(q[q_slice]), tiling.windows(k[kv_slice]), tiling.windows(v[kv_slice]), bias


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)


def gradients(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float, of_out: Tensor
) -> tuple[Tensor, ...]:
    """Of queries, keys and values, by one more pass forward."""
    with torch.enable_grad():
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attention(inputs[0], inputs[1], inputs[2], bias, dropout)
    return torch.autograd.grad(out, inputs, of_out)


def forbidding(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to scores: 0 where allowed; two of the others together are still finite."""
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, lowest(dtype))


def random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def replayed(state: Tensor, device: torch.device) -> Iterator[None]:
    """The random numbers of the forward pass once more, and nothing of it left behind."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if on_cuda else []):
        torch.cuda.set_rng_state(state, device) if on_cuda else torch.set_rng_state(state)
        yield
