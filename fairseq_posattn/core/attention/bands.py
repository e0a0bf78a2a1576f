"""Banded attention, which computes window attention in linear time and memory.

The window can be combined with other mechanisms. The sentences are split into blocks of queries.
The blocks form a larger batch, for which a new AttentionContext is created. The keys of a block are
its own pieces and the `reach` pieces on either side, so scores are computed only within this band.
A mechanism supports bands (`Mechanism.banded`) if it depends only on pairs of pieces, for example
on their distance, which is the same within a block. Positions of pieces, in contrast, are numbered
anew in each block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.ancestors import doublings, word_depths
from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.once import once
from fairseq_posattn.core.source_tree import PADDING, SourceTree

# Minimum and maximum number of queries per block; within these limits, it is the smallest power of
# two above 2·reach. Blocks of 8 to 256 queries were compared for 4,096 pieces on a CPU. The fastest
# were 16 queries for windows of 11 keys, 32 for 31 keys, and 64 for 101 and 511 keys. CUDA was not
# measured; 64 is the tile size of torch's kernel.
BLOCK = {"cpu": (16, 64), "cuda": (64, 64)}


@dataclass
class Bands:
    """Splits the tensors of a batch into blocks, and joins the outputs of the blocks.

    A sentence has G blocks of I queries. Each block has J = I + 2·reach keys.
    """

    whole: AttentionContext  # of the batch
    reach: int
    block: int  # I
    sentences: int  # B

    @classmethod
    def of(cls, ctx: AttentionContext, reach: int, sentences: int) -> Bands:
        """Return the bands of a batch, cached for all layers."""
        reach = min(reach, ctx.length - 1)
        least, greatest = BLOCK.get(ctx.device.type, BLOCK["cuda"])
        block = min(max(least, 1 << (2 * reach).bit_length()), greatest)
        return ctx.cached((cls, reach, sentences), lambda: cls(ctx, reach, block, sentences))

    @once
    def context(self) -> AttentionContext:
        """Return the attention context for the batch of blocks."""
        ctx = self.whole
        real = ctx.real
        if real is None:
            real = torch.ones(1, self.length, dtype=torch.bool, device=ctx.device)
        keys = self.of_keys(real.expand(self.sentences, -1), False)
        tree = None
        if ctx.tree is not None:
            tree = BandedTree(ctx.tree, self.of_keys, self.reach, self.block)
        blocks = AttentionContext(
            keys.size(1), ctx.device, keys, tree, self.block, ctx.causal, first=self.reach
        )
        blocks.nothing_allowed = ctx.nothing_allowed
        return blocks

    @property
    def length(self) -> int:
        return self.whole.length

    @property
    def ends(self) -> tuple[int, int]:
        """Return the number of padding keys before and after each sentence."""
        return self.reach, self.reach + -self.length % self.block

    @property
    def keys_of_block(self) -> int:
        return self.block + 2 * self.reach

    def of_keys(self, x: Tensor, beyond: float) -> Tensor:
        """Select x for each block's keys, padded with `beyond`: (B, T) becomes (B·G, J)."""
        padded = F.pad(x, self.ends, value=beyond)
        return padded.unfold(1, self.keys_of_block, self.block).flatten(0, 1)

    def padded_keys(self, x: Tensor) -> Tensor:
        """Pad keys or values x, of shape (B, H, T, D), with zeros at both ends."""
        return F.pad(x, (0, 0, *self.ends))

    def padded_queries(self, x: Tensor) -> Tensor:
        """Pad queries with zeros to whole blocks: (B, H, T, D) becomes (B, H, G·I, D)."""
        return F.pad(x, (0, 0, 0, -self.length % self.block))

    def cropped(self, x: Tensor, first: int = 0) -> Tensor:
        """Return the T rows of x from index `first` on, without padding, of shape (B, H, T, D)."""
        return x[:, :, first : first + self.length]

    def blocks(self, x: Tensor) -> Tensor:
        """Split rows into blocks: (..., G·I, D) becomes (..., G, I, D)."""
        rows: Tensor = x.unflatten(-2, (-1, self.block))
        return rows

    def views(self, x: Tensor) -> Tensor:
        """Return overlapping views of padded keys: (..., T', D) becomes (..., G, J, D)."""
        return x.unfold(-2, self.keys_of_block, self.block).transpose(-1, -2)

    def add_views(self, x: Tensor, part: Tensor) -> None:
        """Add the gradients of the keys of each block to those of the padded keys, in place.

        This is the transpose of `views`.

        x: gradients of the padded keys, of shape (B, T', D).
        part: gradients of the keys of each block, of shape (B, G, J, D).
        """
        count = part.size(1)
        apart = min(-(-self.keys_of_block // self.block), count)  # so that views do not overlap
        for first in range(apart):
            rows = x[:, first * self.block :].unfold(1, self.keys_of_block, apart * self.block)
            rows.transpose(-1, -2).add_(part[:, first::apart])

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values of each block: (B, H, T, D) becomes (B·G, H, J, D)."""
        return self.views(self.padded_keys(x)).transpose(1, 2).flatten(0, 1)

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries of each block: (B, H, T, D) becomes (B·G, H, I, D)."""
        return self.blocks(self.padded_queries(x)).transpose(1, 2).flatten(0, 1)

    def join(self, x: Tensor) -> Tensor:
        """Join the outputs of all blocks: (B·G, H, I, D) becomes (B, H, T, D)."""
        blocks: Tensor = x.unflatten(0, (self.sentences, -1))  # B G H I D
        return self.cropped(blocks.transpose(1, 2).flatten(2, 3))


class BandedTree(SourceTree):
    """A `SourceTree` for blocks: tensors of pieces have the shape (B·G, J) instead of (B, T).

    No table of all word pairs is needed. The lowest common ancestors are found by pointer doubling
    for all blocks in parallel, in O(log(W)) steps with log2(W) tables of shape (B, W).
    """

    def __init__(
        self, whole: SourceTree, cut: Callable[[Tensor, float], Tensor], first: int, queries: int
    ):
        """Prepare the tree tensors that each block needs.

        whole: the trees of the batch.
        cut: a function that converts a tensor of pieces from shape (B, T) to (B·G, J).
        first: index of the first query of a block among its keys.
        queries: number of queries per block, I.
        """
        self.whole, self.cut = whole, cut
        self.first, self.queries = first, queries
        self.words = cut(whole.words, PADDING)
        self.parents, self.has_end, self.labels = whole.parents, whole.has_end, whole.labels

    @once
    def is_word(self) -> Tensor:
        return self.cut(self.whole.is_word, False)

    @once
    def depths(self) -> Tensor:
        return self.cut(self.whole.depths, 0)

    @once
    def parent_words(self) -> Tensor:
        return self.cut(self.whole.parent_words, PADDING)

    def labels_of_pieces(self, kind: int) -> Tensor:
        return self.cut(self.whole.labels_of_pieces(kind), 0)

    def of_queries(self, x: Tensor) -> Tensor:
        return x[:, self.first : self.first + self.queries, None]

    @once
    def common_ancestors(self) -> tuple[Tensor, Tensor]:
        """Return the lowest common ancestor of each query and key, and their distance in edges.

        Both tensors have the shape (B·G, I, J). The values for end-of-sentence symbols and padding
        are undefined.
        """
        sentences, width = self.parents.shape
        steps = [self.parents]  # the ancestors 1, 2, 4, 8, ... edges above each word
        for _ in range(doublings(width) - 1):
            steps.append(steps[-1].gather(1, steps[-1]))
        depths = word_depths(self.parents)
        inside = self.words.clamp(0, width - 1)
        query, key = torch.broadcast_tensors(self.of_queries(inside), self.of_keys(inside))
        shape = query.shape
        query, key = query.reshape(sentences, -1), key.reshape(sentences, -1)  # B G·I·J
        both = depths.gather(1, query) + depths.gather(1, key)
        is_deeper = depths.gather(1, query) >= depths.gather(1, key)
        low, high = torch.where(is_deeper, query, key), torch.where(is_deeper, key, query)
        apart = depths.gather(1, low) - depths.gather(1, high)
        for number, above in enumerate(steps):
            low = torch.where(apart & (1 << number) != 0, above.gather(1, low), low)
        for above in reversed(steps):
            next_low, next_high = above.gather(1, low), above.gather(1, high)
            moves = next_low != next_high
            low, high = torch.where(moves, next_low, low), torch.where(moves, next_high, high)
        common = torch.where(low == high, low, self.parents.gather(1, low))
        edges = both - 2 * depths.gather(1, common)
        return common.view(shape), edges.view(shape)

    def edges_between(self) -> Tensor:
        return self.common_ancestors[1]

    def keys_above(self) -> Tensor:
        return self.common_ancestors[0] == self.of_keys(self.words)

    def keys_below(self) -> Tensor:
        return self.common_ancestors[0] == self.of_queries(self.words)
