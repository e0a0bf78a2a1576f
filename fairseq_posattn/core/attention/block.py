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
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use, at_least_float32
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
        block = ctx.positions // self.size(ctx)  # B K
        return (block[:, :, None] == block[:, None, :])[:, None]

    def limits(self, ctx: AttentionContext) -> tuple[int, Tensor | None] | None:
        size = self.size(ctx)
        return size - 1, ctx.positions.clamp(min=0) // size

    def replace(self, x: Tensor, out: Tensor, ctx: AttentionContext) -> Tensor:
        x, h = ctx.rows_to_front(x), ctx.rows_to_front(out)  # T B C, padding last
        real = (torch.arange(ctx.length, device=x.device)[:, None] < ctx.lengths)[
            ..., None
        ]  # T B 1
        v, real_blocks = self.pool(h, real, self.size(ctx))  # G B C, G B
        of_blocks = AttentionContext(len(v), x.device, real_blocks.T)
        of_blocks.nothing_allowed = ctx.nothing_allowed  # avoids a synchronisation with the device
        o, _ = self.over_blocks(v, of_blocks)
        gate = torch.sigmoid(self.gate(torch.cat([o, v], dim=-1)))
        e = torch.lerp(v, o, gate)
        if self.watching:
            self.watch(gate_of_the_blocks=mean_of_rows(gate, real_blocks[..., None]))
        fused, gate = self.fuse(x, h, e, self.size(ctx))
        if self.watching:
            self.watch(gate_of_the_output=mean_of_rows(gate, real))
        return ctx.rows_from_front(fused)

    def pool(self, h: Tensor, real: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Return one vector per block, (G, B, C), and a mask of blocks with pieces, (G, B)."""
        scores = self.pooling(torch.relu(self.hidden(h)))
        h, scores, real = (in_blocks(part, size) for part in (h, scores, real))
        scores = scores.masked_fill(~real, torch.finfo(h.dtype).min)
        weights = torch.softmax(at_least_float32(scores), dim=1).type_as(h)
        return (weights * h).sum(dim=1), real[..., 0].any(dim=1)

    def fuse(self, x: Tensor, h: Tensor, e: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Return the output and the gate, both of shape (T, B, C).

        The term that depends on e is computed once per block instead of once per piece.

        x: input of the layer, of shape (T, B, C).
        h: attention inside the blocks, of shape (T, B, C).
        e: vectors of the blocks, of shape (G, B, C).
        """
        width = x.size(-1)
        of_pieces, of_blocks = self.fusion.weight.split([2 * width, width], dim=-1)
        blocks = F.linear(e, of_blocks)[:, None].expand(-1, size, -1, -1)  # G r B 2C
        joined = F.linear(torch.cat([x, h], dim=-1), of_pieces, self.fusion.bias)
        candidate, gate = (joined + blocks.flatten(0, 1)[: len(x)]).chunk(2, dim=-1)
        candidate, gate = torch.relu(candidate).type_as(x), torch.sigmoid(gate).type_as(x)
        return torch.lerp(x, candidate, gate), gate


def mean_of_rows(gate: Tensor, real: Tensor) -> Tensor:
    """Return the mean of a gate, (T, B, C), over channels and real pieces, (T, B, 1)."""
    weights = real.type_as(gate)
    return (gate.detach() * weights).sum() / (weights.sum() * gate.size(-1))


def in_blocks(x: Tensor, size: int) -> Tensor:
    """Pad x, of shape (T, B, C), with zeros and split it into blocks, (G, r, B, C)."""
    x = F.pad(x, (0, 0, 0, 0, 0, -len(x) % size))
    blocks: Tensor = x.unflatten(0, (-1, size))
    return blocks
