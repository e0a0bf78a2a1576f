"""Window attention on CPUs without copying keys, if no other mechanism acts on the scores.

The keys of a block (see `bands`) are consecutive rows in memory, so torch's fused kernel receives
overlapping views of them. Heads are computed one after the other, so that the data of a head stay
in the processor's cache. With `across` > 1, a query also attends to the keys of neighbouring heads.
The kernel is then called once per key head, and the outputs are combined with weights computed
from their log-sum-exps. This is equivalent to one softmax over all keys. The backward pass reuses
the log-sum-exps, so the attention weights are not stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.core.attention.bands import Bands
from fairseq_posattn.core.attention.mechanism import at_least_float32

NAME = "_scaled_dot_product_flash_attention_for_cpu"
KERNEL: Any = getattr(torch.ops.aten, NAME, None)
BACKWARD: Any = getattr(torch.ops.aten, f"{NAME}_backward", None)
# The kernel of torch 2.1 does not accept a mask.
HAS_KERNEL = BACKWARD is not None and "attn_mask" in str(KERNEL.default._schema)


def takes(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> bool:
    """Return whether the kernel supports these tensors; it does not support dropout."""
    return HAS_KERNEL and not dropout and q.device.type == "cpu" and q.dtype == k.dtype == v.dtype


def windowed_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, bands: Bands, across: int
) -> Tensor:
    """Return the output of attention within bands, of shape (B, H, T, D).

    q, k, v: tensors of shape (B, H, T, D).
    bias: tensor of shape (B, G, I, J) or (1, G, I, J), with very low values at the masked keys of
        each block.
    across: number of adjacent heads, centred on a query's own head, to whose keys it attends.
    """
    args = (q, k, v, bias, bands, across)
    out: Tensor = Blockwise.apply(*args)  # type: ignore[no-untyped-call]  # torch gives it no types
    return out


class Blockwise(torch.autograd.Function):
    """Calls torch's kernel for each head in the forward and backward pass."""

    @staticmethod
    def forward(
        ctx: Any,  # torch's context, which stores tensors for the backward pass
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        bands: Bands,
        across: int,
    ) -> Tensor:
        q, k, v = bands.padded_queries(q), bands.padded_keys(k), bands.padded_keys(v)
        bias = bias.expand(len(q), -1, -1, -1)
        out, sums = torch.empty_like(q), []
        for head in range(q.size(1)):
            found = None
            for other in near(head, across, q.size(1)):
                blocks = (
                    bands.blocks(q[:, head]),
                    bands.views(k[:, other]),
                    bands.views(v[:, other]),
                )
                part = KERNEL(*blocks, 0.0, False, attn_mask=bias)
                found = part if found is None else joined(found, part)
            assert found is not None  # `near` contains the head itself
            bands.blocks(out[:, head]).copy_(found[0])
            sums.append(found[1])
        ctx.save_for_backward(q, k, v, bias, out, *sums)
        ctx.bands, ctx.across = bands, across
        return bands.cropped(out)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_out: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of q, k and v."""
        q, k, v, bias, out, *sums = ctx.saved_tensors
        bands: Bands = ctx.bands
        of_out = bands.padded_queries(of_out)
        of_q, of_k, of_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for head in range(q.size(1)):
            own, made = bands.blocks(q[:, head]), bands.blocks(out[:, head])
            given = bands.blocks(of_out[:, head]).contiguous()
            for other in near(head, ctx.across, q.size(1)):
                blocks = own, bands.views(k[:, other]), bands.views(v[:, other])
                changes = BACKWARD(given, *blocks, made, sums[head], 0.0, False, attn_mask=bias)
                bands.blocks(of_q[:, head]).add_(changes[0])
                bands.add_views(of_k[:, other], changes[1])
                bands.add_views(of_v[:, other], changes[2])
        return (
            bands.cropped(of_q),
            bands.cropped(of_k, bands.reach),
            bands.cropped(of_v, bands.reach),
            *(None, None, None),
        )


def near(head: int, across: int, heads: int) -> range:
    """Return the heads whose keys are visible to the queries of a head."""
    return range(max(0, head - across // 2), min(heads, head + across // 2 + 1))


def joined(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Merge the outputs for two sets of keys into the output of one softmax over both sets.

    The arguments and the result are pairs of an output, of shape (B, G, I, D), and its
    log-sum-exps, of shape (B, G, I).
    """
    sums = torch.logaddexp(one[1], other[1])
    shares = [torch.exp(part[1] - sums)[..., None] for part in (one, other)]
    out = at_least_float32(one[0]) * shares[0] + at_least_float32(other[0]) * shares[1]
    return out.type_as(one[0]), sums
