"""Attention within a window is computed block by block, in time and memory linear in the length.

The queries of a block see the keys of the block and `reach` more on either side, which gives the
same result as the whole square of scores under the window's mask. Keys that several blocks or heads
see are copied for each of them. So the blocks are taken in parts small enough for a processor's
cache, and the backward pass makes each part again instead of keeping it.
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

# These are the queries of a block (or half of the reach where that is more) and those of a part.
# On the CPU they were measured with windows of 3, 11, 101 and 511 keys at 4,096 pieces: blocks of
# other sizes, 8 to 512, gain 12 % at most and lose up to twice the time; parts of 512 gain nothing.
# On CUDA nothing was measured: a block is the tile of torch's kernel, and a part is large enough to
# take longer than the start of a kernel.
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
    """Return the output, B H T D, of attention to keys at most `reach` away.

    q, k, v: B H T D. exists: N H, which of the N heads around a head there are. real: B T, True = a
    real piece, or None.
    """
    batch, _, length, _ = q.shape
    tiling = Tiling.of(q, reach, len(exists))
    if real is None:
        real = torch.ones(1, length, dtype=torch.bool, device=q.device)
    # The right end is longer, so that the last part is a whole one too.
    ends = (tiling.reach, tiling.reach + -length % tiling.rows)
    real = F.pad(real, ends).expand(batch, -1)  # B T'
    k, v = (F.pad(x, (0, 0, *ends, tiling.copies // 2, tiling.copies // 2)) for x in (k, v))
    q = F.pad(q, (0, 0, 0, -length % tiling.rows)) if length % tiling.rows else q
    biases = (tiling.band(exists, causal, q.dtype), forbidding(real, q.dtype))
    args = (q, k, v, *biases, tiling, dropout)
    out: Tensor = Blockwise.apply(*args)  # type: ignore[no-untyped-call]  # torch gives it no types
    return out[:, :, :length]


@dataclass(frozen=True)
class Tiling:
    """A tiling divides a batch into parts of some sentences and rows, and these into blocks."""

    reach: int
    copies: int  # N
    block: int  # I queries, which see J keys
    rows: int  # of a part: R = G·I
    sentences: int  # of a part: b

    @classmethod
    def of(cls, q: Tensor, reach: int, copies: int) -> Tiling:
        """Return the tiling that suits the queries, B H T D, and their device."""
        length = q.size(2)
        reach = min(reach, length - 1)
        least, part = SIZES.get(q.device.type, SIZES["cuda"])
        block = max(least, reach // 2)
        parts = -(-length // max(part, block))
        rows = block * -(-length // (parts * block))  # parts of about one size need little padding
        return cls(reach, copies, block, rows, max(1, part // rows))

    @property
    def keys(self) -> int:
        """Return how many keys the queries of a block see in one head: J."""
        return self.block + 2 * self.reach

    def parts(self, q: Tensor) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield for each part its slices of the queries and of the padded keys."""
        for sentence in range(0, q.size(0), self.sentences):
            for row in range(0, q.size(2), self.rows):
                some, end = slice(sentence, sentence + self.sentences), row + self.rows
                beyond = end + 2 * self.reach
                yield (some, slice(None), slice(row, end)), (some, slice(None), slice(row, beyond))

    def band(self, exists: Tensor, causal: bool, dtype: torch.dtype) -> Tensor:
        """Return the bias that forbids keys out of reach: 1 H I N·J, or 1 1 I J if all heads are
        alike."""
        exists = exists if self.copies > 1 else exists[:, :1]
        query = torch.arange(self.block, device=exists.device)
        key = torch.arange(self.keys, device=exists.device) - self.reach
        distance = key - query[:, None]
        near = (distance >= -self.reach) & (distance <= (0 if causal else self.reach))  # I J
        return forbidding((near[:, None] & exists.T[:, None, :, None]).flatten(2), dtype)[None]

    def blocks(self, x: Tensor) -> Tensor:
        """Return x, b H R D, cut into blocks: b·G H I D."""
        rows: Tensor = x.unflatten(2, (-1, self.block))  # b H G I D
        return rows.transpose(1, 2).flatten(0, 1)

    def join(self, x: Tensor, like: Tensor) -> Tensor:
        """Return the blocks x, b·G H I D, joined to rows, b H R D; `like` has b sentences."""
        blocks: Tensor = x.unflatten(0, (len(like), -1))  # b G H I D
        return blocks.transpose(1, 2).flatten(2, 3)

    def windows(self, x: Tensor) -> Tensor:
        """Return the keys that each block sees, b·G H N·J D, of x, b H+N-1 R+2·reach D."""
        x = x.unfold(2, self.keys, self.block).unfold(1, self.copies, 1)  # b H G D J N
        return x.permute(0, 2, 1, 5, 4, 3).flatten(3, 4).flatten(0, 1)

    def add_windows(self, x: Tensor, part: Tensor) -> None:
        """Add the gradients of windows, b·G H N·J D, to those of the keys, b H+N-1 R+2·reach D."""
        heads = part.size(1)
        part = part.view(len(x), -1, heads, self.copies, self.keys, x.size(-1))  # b G H N J D
        part = part.permute(3, 0, 2, 1, 5, 4)  # N b H G D J
        apart = min(-(-self.keys // self.block), part.size(3))  # blocks that share no key
        for n in range(self.copies):
            for g in range(apart):
                rows = x[:, n : n + heads, g * self.block :]
                rows.unfold(2, self.keys, apart * self.block).add_(part[n, :, :, g::apart])


class Blockwise(torch.autograd.Function):
    """This function takes all parts one after the other and has a backward pass of its own.

    q: B H T D, where T is a number of whole parts; k, v: B H+N-1 T' D; the output is B H T D.
    """

    @staticmethod
    def forward(
        ctx: Any,  # torch keeps on it what the backward pass needs
        q: Tensor,
        k: Tensor,
        v: Tensor,
        band: Tensor,
        padding: Tensor,
        tiling: Tiling,
        dropout: float,
    ) -> Tensor:
        """Return the output, and keep for the backward pass only what went in."""
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
        """Return the gradients of q, k and v; each part is computed once more for them."""
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
    """Return the inputs of a part: queries b·G H I D, keys and values b·G H N·J D, and the bias."""
    some, _, rows = kv_slice
    bias = padding[some, rows].unfold(1, tiling.keys, tiling.block).flatten(0, 1)  # b·G J
    bias = band + bias.repeat(1, tiling.copies)[:, None, None]  # b·G H I N·J
    return tiling.blocks(q[q_slice]), tiling.windows(k[kv_slice]), tiling.windows(v[kv_slice]), bias


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float) -> Tensor:
    """Return the output of torch's fused kernel for one part."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)


def gradients(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, dropout: float, of_out: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients of queries, keys and values, which take one more pass forward."""
    with torch.enable_grad():
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attention(inputs[0], inputs[1], inputs[2], bias, dropout)
    return torch.autograd.grad(out, inputs, of_out)


def forbidding(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a bias of 0 where allowed, and elsewhere so low a one that two together are finite."""
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, lowest(dtype))


def random_state(device: torch.device) -> Tensor:
    """Return the state of the random numbers of a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def replayed(state: Tensor, device: torch.device) -> Iterator[None]:
    """Repeat the random numbers of the forward pass inside, and restore the state afterwards."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if on_cuda else []):
        torch.cuda.set_rng_state(state, device) if on_cuda else torch.set_rng_state(state)
        yield
