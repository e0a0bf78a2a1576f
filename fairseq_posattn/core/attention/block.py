"""Block self-attention, Bi-BloSAN (Shen et al. 2018b; "Block" in Yang et al. 2019).

Unlike in the paper, attention is multi-head instead of feature-wise.

    h = self-attention inside blocks of r pieces: the layer's attention, masked to the block
    v = sum softmax(W2 ReLU(W1 h + b1) + b2) * h    over the pieces of a block, feature by feature
    o = self-attention over the block vectors
    e = G * o + (1 - G) * v,  G = sigmoid(W3 o + W4 v + b3)
    output = F * ReLU(W5 [x; h; e] + b5) + (1 - F) * x,  F = sigmoid(W6 [x; h; e] + b6)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.kernels import lowest_if_masked
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.stages import PostAttention, ScoreMask
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import at_least


@dataclass(frozen=True)
class BlockOptions:
    size: int = option(
        0,
        "pieces per block; 0: the cube root of twice the length of the batch's longest sentence",
        at_least(0),
    )


class Block(ScoreMask, PostAttention):
    """Restricts attention to blocks, adds attention between blocks, and combines both by gates."""

    name = "block"
    paper = "Shen et al. 2018b, Bi-BloSAN; Yang et al. 2019, Table 1"
    Options = BlockOptions
    examples = ("size=3",)  # by default the size of a block depends on the batch
    unseen = ("over_blocks.k_proj.bias", "pooling.bias")
    options: BlockOptions
    equation = "F ∘ ReLU(W5 [x; h; e] + b5) + (1 − F) ∘ x, h inside blocks, e over blocks"

    def make_parameters(self) -> None:
        width = self.shape.width
        self.hidden = nn.Linear(width, width)  # W1
        self.pooling = nn.Linear(width, width)  # W2
        self.over_blocks = MultiheadSelfAttention(width, self.shape.heads)
        self.gate = nn.Linear(2 * width, width)  # W3 W4
        self.fusion = nn.Linear(3 * width, 2 * width)  # W5 above W6
        for linear in (self.hidden, self.pooling, self.gate):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        for matrix in self.fusion.weight.chunk(2):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.fusion.bias)

    @classmethod
    def check(cls, options: BlockOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        for other in others:
            if getattr(other.mechanism, "local", False):
                raise ValueError(
                    f"'{other.mechanism.name}' limits attention to a window and 'block' to a "
                    "block; assign them to different layers with '@'"
                )

    def size(self, ctx: AttentionContext) -> int:
        """Return the number of pieces per block in this batch."""

        def by_length() -> int:
            root: float = (2 * ctx.longest) ** (1 / 3)
            return max(1, math.ceil(root))

        return min(self.options.size, ctx.length) or ctx.cached(Block, by_length)

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        size = self.size(ctx)

        def mask() -> Tensor:
            block = ctx.positions // size  # B K
            return (block[:, :, None] == block[:, None, :])[:, None]

        return ctx.cached((Block, "allowed", size), mask)

    def limits(self, ctx: AttentionContext) -> tuple[int, Tensor | None] | None:
        size = self.size(ctx)
        return size - 1, ctx.positions.clamp(min=0) // size

    def replace(self, x: Tensor, out: Tensor, ctx: AttentionContext) -> Tensor:
        size = self.size(ctx)
        real, of_blocks = ctx.cached((Block, "blocks", size), lambda: blocks_of(ctx, size))
        v = self.pool(ctx.rows_to_front(out), real)  # G B C
        o, _ = self.over_blocks(v, of_blocks)
        gate = torch.sigmoid(self.gate(torch.cat([o, v], dim=-1)))
        e = torch.lerp(v, o, gate)
        if self.watching:
            assert of_blocks.real is not None
            self.watch(gate_of_the_blocks=mean_of_rows(gate, of_blocks.real.T[..., None]))
        fused, gate = self.fuse(x, out, e, ctx)
        if self.watching:
            self.watch(gate_of_the_output=mean_of_rows(gate, (ctx.positions >= 0).T[..., None]))
        return fused

    def pool(self, h: Tensor, real: Tensor) -> Tensor:
        """Return one vector per block, (G, B, C); `real`, (G, r, B, 1), is a mask of pieces."""
        h = F.pad(h, (0, 0, 0, 0, 0, real[..., 0, 0].numel() - len(h)))
        scores = self.pooling(torch.relu(self.hidden(h))).unflatten(0, real.shape[:2])
        weights = torch.softmax(lowest_if_masked(scores, real), dim=1)
        pooled: Tensor = (weights * h.unflatten(0, real.shape[:2])).sum(dim=1)
        return pooled

    def fuse(self, x: Tensor, h: Tensor, e: Tensor, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        """Return the output and the gate, both of shape (T, B, C).

        The term that depends on e is computed once per block instead of once per piece.

        x: input of the layer, of shape (T, B, C).
        h: attention inside the blocks, of shape (T, B, C).
        e: vectors of the blocks, of shape (G, B, C).
        """
        width = x.size(-1)
        of_pieces, of_blocks = self.fusion.weight.split([2 * width, width], dim=-1)
        blocks = F.linear(e, of_blocks)[:, None].expand(-1, self.size(ctx), -1, -1)  # G r B 2C
        joined = F.linear(torch.cat([x, h], dim=-1), of_pieces, self.fusion.bias)
        joined = joined + ctx.rows_from_front(blocks.flatten(0, 1)[: len(x)])
        candidate, gate = joined.chunk(2, dim=-1)
        candidate, gate = torch.relu(candidate).type_as(x), torch.sigmoid(gate).type_as(x)
        return torch.lerp(x, candidate, gate), gate


def mean_of_rows(gate: Tensor, real: Tensor) -> Tensor:
    """Return the mean (a scalar) of a gate, (T, B, C), over the pieces in the mask, (T, B, 1)."""
    weights = real.type_as(gate).expand(*gate.shape[:2], 1)
    return (gate.detach() * weights).sum() / (weights.sum() * gate.size(-1))


def blocks_of(ctx: AttentionContext, size: int) -> tuple[Tensor, AttentionContext]:
    """Return a mask of the pieces in each block, (G, r, B, 1), and the context of the blocks."""
    count = -(-ctx.length // size)
    columns = torch.arange(count * size, device=ctx.device).view(count, size, 1)
    real = columns < ctx.lengths  # G r B
    of_blocks = AttentionContext(count, ctx.device, real[:, 0].T)
    of_blocks.nothing_allowed = ctx.nothing_allowed  # avoids a synchronisation with the device
    return real[..., None], of_blocks
