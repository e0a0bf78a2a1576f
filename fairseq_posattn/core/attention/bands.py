"""Attention within a window is computed in bands, whatever other mechanisms act beside the window.

The queries of a block see the keys of the block and `reach` more on either side. So a batch of
sentences is cut into a larger batch of blocks, with a context of its own, in which each mechanism
finds the pairs of pieces that lie in the band: time and memory grow with the length, not with its
square. What a mechanism asks of the context must be pairs (`Mechanism.banded`): the distance of two
pieces means the same in a block, while the position of a piece would not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.once import once
from fairseq_posattn.core.source_tree import PADDING, SourceTree, doublings, word_depths

# The least and the greatest number of queries of a block, which are the next power of two from
# twice the reach on, between these. On the CPU blocks of 8 to 256 queries were measured at 4,096
# pieces: the best had 16 with windows of 11 keys, 32 with 31, and 64 with 101 and 511. On CUDA
# nothing was measured, and the number is the tile of torch's kernel.
BLOCK = {"cpu": (16, 64), "cuda": (64, 64)}


@dataclass
class Bands:
    """This cuts what a batch has of each piece into blocks, and joins what comes out.

    There are G blocks of I queries, each of which sees J = I + 2·reach keys.
    """

    whole: AttentionContext  # of the batch
    reach: int
    block: int  # I
    sentences: int  # B

    @classmethod
    def of(cls, ctx: AttentionContext, reach: int, sentences: int) -> Bands:
        """Return the bands of a batch, which all layers share."""
        reach = min(reach, ctx.length - 1)
        least, greatest = BLOCK.get(ctx.device.type, BLOCK["cuda"])
        block = min(max(least, 1 << (2 * reach).bit_length()), greatest)
        return ctx.cached((cls, reach, sentences), lambda: cls(ctx, reach, block, sentences))

    @once
    def context(self) -> AttentionContext:
        """Return the context of the blocks, which has the pairs that lie in the band."""
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
        """Return how many keys that do not exist come before and after those of a sentence."""
        return self.reach, self.reach + -self.length % self.block

    @property
    def keys_of_block(self) -> int:
        return self.block + 2 * self.reach

    def of_keys(self, x: Tensor, beyond: float) -> Tensor:
        """Return what each block sees of x, B T, as B·G J, with a constant beyond the ends."""
        padded = F.pad(x, self.ends, value=beyond)
        return padded.unfold(1, self.keys_of_block, self.block).flatten(0, 1)

    def padded_keys(self, x: Tensor) -> Tensor:
        """Return keys or values x, B H T D, with zeros beyond the ends."""
        return F.pad(x, (0, 0, *self.ends))

    def padded_queries(self, x: Tensor) -> Tensor:
        """Return queries x, B H T D, in whole blocks: B H G·I D."""
        return F.pad(x, (0, 0, 0, -self.length % self.block))

    def cropped(self, x: Tensor, first: int = 0) -> Tensor:
        """Return the rows of the sentences, B H T D, from those of whole blocks."""
        return x[:, :, first : first + self.length]

    def blocks(self, x: Tensor) -> Tensor:
        """Return rows of whole blocks, ... G·I D, as ... G I D."""
        rows: Tensor = x.unflatten(-2, (-1, self.block))
        return rows

    def views(self, x: Tensor) -> Tensor:
        """Return what each block sees of padded keys, ... T' D, as ... G J D, without a copy."""
        return x.unfold(-2, self.keys_of_block, self.block).transpose(-1, -2)

    def add_views(self, x: Tensor, part: Tensor) -> None:
        """Add to padded keys x, B T' D, what belongs to each block's view of them, B G J D."""
        count = part.size(1)
        apart = min(-(-self.keys_of_block // self.block), count)  # blocks that share no key
        for first in range(apart):
            rows = x[:, first * self.block :].unfold(1, self.keys_of_block, apart * self.block)
            rows.transpose(-1, -2).add_(part[:, first::apart])

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values x, B H T D, that each block sees: B·G H J D."""
        return self.views(self.padded_keys(x)).transpose(1, 2).flatten(0, 1)

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries x, B H T D, of each block: B·G H I D."""
        return self.blocks(self.padded_queries(x)).transpose(1, 2).flatten(0, 1)

    def join(self, x: Tensor) -> Tensor:
        """Return the output of the blocks, B·G H I D, as that of the sentences, B H T D."""
        blocks: Tensor = x.unflatten(0, (self.sentences, -1))  # B G H I D
        return self.cropped(blocks.transpose(1, 2).flatten(2, 3))


class BandedTree(SourceTree):
    """This tells of the pieces that each block sees what `SourceTree` tells of all; every tensor of
    pieces is B·G J instead of B T.

    No table of all pairs of words is made. The lowest common ancestor of two words is found by
    pointers that double their step: log2(W) tables of B W, and as many steps for the pairs of all
    blocks at once.

    The queries of a block are I of its J keys.
    """

    def __init__(
        self, whole: SourceTree, cut: Callable[[Tensor, float], Tensor], first: int, queries: int
    ):
        """Cut the pieces of a whole tree, B T, by `cut`, into B·G J.

        first: the number of a block's first query among its keys. queries: how many it has.
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
        """Return for each two pieces, B·G I J, the lowest common ancestor of their words and the
        number of edges between these. Both have no meaning where a piece belongs to no word."""
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
