"""Attention within a window is computed in bands, whatever other mechanisms act beside the window.

The queries of a block see the keys of the block and `reach` more on either side. So a batch of
sentences is cut into a larger batch of blocks, with a context of its own, in which each mechanism
finds the pairs of pieces that lie in the band: time and memory grow with the length, not with its
square. What a mechanism asks of the context must be pairs (`Mechanism.banded`): the distance of two
pieces means the same in a block, while the position of a piece would not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.banded_tree import BandedTree

BLOCK = 16  # a block has this many queries, or half of the reach where that is more


@dataclass
class Bands:
    """This cuts what a batch has of each piece into blocks, and joins what comes out.

    There are G blocks of I queries, each of which sees J = I + 2·reach keys.
    """

    reach: int
    block: int  # I
    sentences: int  # B
    length: int  # T
    context: AttentionContext = None  # type: ignore[assignment]  # of the blocks, see `of`

    @classmethod
    def of(cls, ctx: AttentionContext, reach: int, sentences: int) -> Bands:
        """Return the bands of a batch, whose context has the pairs of the blocks."""
        reach = min(reach, ctx.length - 1)
        bands = cls(reach, max(BLOCK, reach // 2), sentences, ctx.length)
        real = ctx.real
        if real is None:
            real = torch.ones(1, ctx.length, dtype=torch.bool, device=ctx.device)
        keys = bands.of_keys(real.expand(sentences, -1), False)
        tree = None
        if ctx.tree is not None:
            tree = BandedTree(ctx.tree, bands.of_keys, reach, bands.block)
        blocks = AttentionContext(
            keys.size(1), ctx.device, keys, tree, bands.block, ctx.causal, first=reach
        )
        blocks.nothing_allowed = ctx.nothing_allowed
        bands.context = blocks
        return bands

    @property
    def ends(self) -> tuple[int, int]:
        """Return how many keys that do not exist come before and after those of a sentence."""
        return self.reach, self.reach + -self.length % self.block

    def of_keys(self, x: Tensor, beyond: float) -> Tensor:
        """Return what each block sees of x, B T, as B·G J, with a constant beyond the ends."""
        padded = F.pad(x, self.ends, value=beyond)
        return padded.unfold(1, self.block + 2 * self.reach, self.block).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values x, B H T D, that each block sees: B·G H J D."""
        padded = F.pad(x, (0, 0, *self.ends))
        windows = padded.unfold(2, self.block + 2 * self.reach, self.block)  # B H G D J
        return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries x, B H T D, of each block: B·G H I D."""
        padded = F.pad(x, (0, 0, 0, -self.length % self.block))
        blocks: Tensor = padded.unflatten(2, (-1, self.block))  # B H G I D
        return blocks.transpose(1, 2).flatten(0, 1)

    def join(self, x: Tensor) -> Tensor:
        """Return the output of the blocks, B·G H I D, as that of the sentences, B H T D."""
        blocks: Tensor = x.unflatten(0, (self.sentences, -1))  # B G H I D
        return blocks.transpose(1, 2).flatten(2, 3)[:, :, : self.length]
