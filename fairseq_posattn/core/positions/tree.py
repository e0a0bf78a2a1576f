"""Depths and relations of pieces in the dependency tree of their sentence (Wang et al. 2019, 3.1).

Everything is computed from two integer tensors of the batch, on its device, without a loop over
sentences or words and without waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

PADDING = -1
NO_PARENT = -1


@dataclass
class SourceTree:
    """words: B T, the word of each piece; end of sentence counts as a word after all others;
    padding is -1. parents: B W, the parent of each word of the whole tree, the root its own."""

    words: Tensor
    parents: Tensor

    @classmethod
    def of_batch(cls, records: Tensor, real: Tensor) -> SourceTree:
        """records: 2 B W, the parent (counted from 1, 0 = root) and the number of pieces of each
        word, zeros beyond a sentence's last. real: B T, True = a piece or end of sentence, which
        comes last. Of a truncated sentence the first pieces are there, and the whole tree."""
        parents, pieces = records.long()  # B W each
        width = parents.size(1)
        own = torch.arange(width, device=records.device)
        position = real.long().cumsum(dim=1) - 1  # B T
        words = torch.searchsorted(pieces.cumsum(dim=1), position, right=True)
        end = position == position[:, -1:]
        words = words.masked_fill(end, width).masked_fill(~real, PADDING)
        return cls(words, torch.where(parents == 0, own, parents - 1))

    @cached_property
    def is_word(self) -> Tensor:
        """B T: True for a piece of a word, False for end of sentence and padding."""
        last = self.words.max(dim=1, keepdim=True).values
        return (self.words != PADDING) & (self.words < last)

    @cached_property
    def depths(self) -> Tensor:
        """B T: edges up to the root (Eq. 5); end of sentence: 1 + the largest that is left."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        depths = word_depths(self.parents).gather(1, inside)
        depths = depths.masked_fill(~self.is_word, NO_PARENT)
        end = depths.max(dim=1, keepdim=True).values + 1
        return torch.where(self.is_word, depths, end).masked_fill(self.words == PADDING, 0)

    @cached_property
    def parent_words(self) -> Tensor:
        """B T: the word that is the parent of the piece's word; -1 for root, end and padding."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        parents = self.parents.gather(1, inside)
        return parents.masked_fill(~self.is_word | (parents == self.words), NO_PARENT)

    @cached_property
    def relations(self) -> Tensor:
        """B Q K: rule 1 where one word is the parent of the other, else rule 2 (Eq. 6).

        Pieces of the same word get 0: the equation's i - j, read as words.
        """
        query_word, key_word = self.words[:, :, None], self.words[:, None, :]
        query_depth, key_depth = self.depths[:, :, None], self.depths[:, None, :]
        edge = (self.parent_words[:, :, None] == key_word) & (key_word != PADDING)
        edge = edge | edge.transpose(1, 2)
        order = torch.sign(query_word - key_word)
        return torch.where(edge, query_depth - key_depth, order * (query_depth + key_depth))


def word_depths(parents: Tensor) -> Tensor:
    """B W parents, the root its own -> B W depths, by pointer doubling: log2(W) steps."""
    length = parents.size(1)
    depths = (parents != torch.arange(length, device=parents.device)).long()
    ancestors = parents
    for _ in range(max(length - 1, 1).bit_length()):
        depths = depths + depths.gather(1, ancestors)
        ancestors = ancestors.gather(1, ancestors)
    return depths
