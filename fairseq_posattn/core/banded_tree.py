"""A banded tree tells of pairs of near pieces what `SourceTree` tells of all pairs.

Attention within a window is cut into blocks (`core/attention/bands.py`), so no table of all pairs
of words may be made. The lowest common ancestor of two words is found by pointers that double their
step: log2(W) tables of B W, and as many steps for the pairs of all blocks at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_posattn.core.once import once
from fairseq_posattn.core.source_tree import PADDING, SourceTree, doublings, word_depths


class BandedTree(SourceTree):
    """This holds the pieces that each block sees; every tensor of pieces is B·G J instead of B T.

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
