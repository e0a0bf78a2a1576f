"""The dependency trees of a batch as tensors, and the relations between pieces derived from them.

Depths and relations follow Wang et al. 2019, Section 3.1. During training, they are computed on the
device from two integer tensors per batch, without a loop over words and without synchronising with
the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.ancestors import word_ancestors, word_depths
from fairseq_posattn.core.once import once
from fairseq_posattn.errors import InputError

PADDING = -1
NO_PARENT = -1
PADDING_LABEL, END_LABEL, UNKNOWN_LABEL = 1, 2, 3  # fairseq's indices of <pad>, </s> and <unk>


@dataclass
class SourceTree:
    """The dependency trees of a batch, with a mapping from pieces to words.

        tree = SourceTree.from_parents([[2, 0, 2]], padding)  # one sentence of three words

    words: tensor of shape (B, T) with the index of each piece's word, starting at 0. The
        end-of-sentence symbol has a larger index than all words of its tree, and padding has the
        index -1.
    parents: tensor of shape (B, W) with the index of each word's parent. It also covers words that
        were removed by truncation. The root is its own parent.
    labels: tensor of shape (2, B, W) with the indices of each word's relation and part of speech;
        None if the model does not read labels.
    """

    words: Tensor
    parents: Tensor
    has_end: bool = True  # whether the last piece of each sentence is the end-of-sentence symbol
    labels: Tensor | None = None

    @classmethod
    def of_batch(cls, records: Tensor, real: Tensor) -> SourceTree:
        """Create the trees of a batch from records of the data set.

        Each sentence must end with an end-of-sentence symbol.

        records: zero-padded tensor of shape (2, B, W) with the parent (starting at 1; 0 for the
            root) and the number of pieces of each word. If the shape is (4, B, W), it also contains
            the relation and the part of speech of each word. Trees are complete even if the
            sentence is truncated.
        real: boolean mask of shape (B, T); True marks pieces and end-of-sentence symbols.
        """
        parents, pieces = records[:2].long()  # B W each
        width = parents.size(1)
        own = torch.arange(width, device=records.device)
        position = real.long().cumsum(dim=1) - 1  # B T
        words = torch.searchsorted(pieces.cumsum(dim=1), position, right=True)
        end = position == position[:, -1:]
        words = words.masked_fill(end, width).masked_fill(~real, PADDING)
        labels = records[2:].long() if len(records) > 2 else None
        return cls(words, torch.where(parents == 0, own, parents - 1), labels=labels)

    @classmethod
    def from_parents(
        cls,
        parents: Sequence[Sequence[int]],
        padding: Tensor,
        pieces: Sequence[Sequence[int]] | None = None,
        relations: Sequence[Sequence[int]] | None = None,
    ) -> SourceTree:
        """Create trees from lists of parents, for sentences without an end-of-sentence symbol.

        Raise an InputError for the first sentence whose tree is invalid or does not match its
        pieces.

        parents: for each sentence, the parent of each word. Words are numbered from 1, and the
            parent of the root is 0.
        padding: boolean mask of shape (B, T); True marks padding.
        pieces: for each sentence, the number of pieces of each word (default: 1).
        relations: for each sentence, the index of each word's relation, starting at 3
            (`UNKNOWN_LABEL`); required if a mechanism reads relations.
        """
        counts = pieces or [[1] * len(sentence) for sentence in parents]
        real = ~padding.cpu()
        check_sentences(parents, counts, real.sum(dim=1).tolist())
        words = torch.full(real.shape, PADDING)
        table = torch.arange(max(1, *map(len, parents))).repeat(len(parents), 1)
        for row, (of_words, sizes) in enumerate(zip(parents, counts, strict=True)):
            numbers = [word for word, size in enumerate(sizes) for _ in range(size)]
            words[row, real[row]] = torch.tensor(numbers).long()
            own = [parent - 1 if parent else word for word, parent in enumerate(of_words)]
            table[row, : len(own)] = torch.tensor(own).long()
        labels = None if relations is None else padded_labels(relations, parents, table.size(1))
        if labels is not None:
            labels = labels.to(padding.device)
        return cls(words.to(padding.device), table.to(padding.device), False, labels)

    @once
    def is_word(self) -> Tensor:
        """Return a mask, (B, T), of pieces of words, excluding end of sentence and padding."""
        if not self.has_end:
            return self.words != PADDING
        last = self.words.max(dim=1, keepdim=True).values
        return (self.words != PADDING) & (self.words < last)

    @once
    def depths(self) -> Tensor:
        """Return the depth (Eq. 5) of each piece's word, (B, T); </s> has the maximum plus 1."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        depths = word_depths(self.parents).gather(1, inside)
        depths = depths.masked_fill(~self.is_word, NO_PARENT)
        end = depths.max(dim=1, keepdim=True).values + 1
        return torch.where(self.is_word, depths, end).masked_fill(self.words == PADDING, 0)

    @once
    def parent_words(self) -> Tensor:
        """Return the parent of each piece's word, or -1 (root, end, padding), of shape (B, T)."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        parents = self.parents.gather(1, inside)
        return parents.masked_fill(~self.is_word | (parents == self.words), NO_PARENT)

    @once
    def relation_labels(self) -> Tensor:
        """Return the index of each piece's dependency relation, of shape (B, T)."""
        return self.labels_of_pieces(0)

    @once
    def tag_labels(self) -> Tensor:
        """Return the index of each piece's part of speech, of shape (B, T)."""
        return self.labels_of_pieces(1)

    def labels_of_pieces(self, kind: int) -> Tensor:
        """Return one type of label for each piece, (B, T); special ones for end and padding."""
        assert self.labels is not None  # models that read labels reject batches without labels
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        found = self.labels[kind].gather(1, inside)
        found = found.masked_fill(~self.is_word, END_LABEL)
        return found.masked_fill(self.words == PADDING, PADDING_LABEL)

    @once
    def relations(self) -> Tensor:
        """Return the relation between each query and key, of shape (B, Q, K) (Eq. 6).

        If one word is the parent of the other, the relation is the depth of the query minus that of
        the key (rule 1). Otherwise, it is the sum of both depths, negative if the query precedes
        the key (rule 2), or 0 for pieces of the same word, as i and j in Eq. 6 are word indices.
        """
        query_word, key_word = self.of_queries(self.words), self.of_keys(self.words)
        query_depth, key_depth = self.of_queries(self.depths), self.of_keys(self.depths)
        edge = self.keys_that_are_parents | self.keys_that_are_children
        order = torch.sign(query_word - key_word)
        return torch.where(edge, query_depth - key_depth, order * (query_depth + key_depth))

    def of_queries(self, x: Tensor) -> Tensor:
        return x[:, :, None]

    def of_keys(self, x: Tensor) -> Tensor:
        return x[:, None, :]

    @once
    def keys_that_are_parents(self) -> Tensor:
        """Return a mask of shape (B, Q, K), True if the key's word is the parent of the query's."""
        key_word = self.of_keys(self.words)
        return (self.of_queries(self.parent_words) == key_word) & (key_word != PADDING)

    @once
    def keys_that_are_children(self) -> Tensor:
        """Return a mask of shape (B, Q, K), True if the query's word is the parent of the key's."""
        query_word = self.of_queries(self.words)
        return (self.of_keys(self.parent_words) == query_word) & (query_word != PADDING)

    @once
    def ancestors(self) -> Tensor:
        """Return a mask of shape (B, W, W), True if word j is word i or one of its ancestors."""
        return word_ancestors(self.parents)

    @once
    def word_distances(self) -> Tensor:
        """Return the number of edges between any two words, of shape (B, W, W).

        If words v and w have n common ancestors, their distance is depth(v) + depth(w) - 2 (n - 1).
        Here, a word counts as an ancestor of itself.
        """
        ancestors = self.ancestors.float()  # float32 represents these counts exactly
        both = ancestors @ ancestors.transpose(1, 2)
        counts = ancestors.sum(dim=2)  # depth + 1
        return (counts[:, :, None] + counts[:, None, :] - 2 * both).long()

    @once
    def distances(self) -> Tensor:
        """Return the number of edges between the words of each query and key, of shape (B, Q, K).

        The distance is 0 within a word, between the end-of-sentence symbol and itself, and between
        two padding symbols. It is -1 for all other pairs with one of these symbols.
        """
        outside = ~(self.of_queries(self.is_word) & self.of_keys(self.is_word))
        same = self.of_queries(self.words) == self.of_keys(self.words)
        found = self.edges_between().masked_fill(outside, NO_PARENT)
        return found.masked_fill(outside & same, 0)

    def edges_between(self) -> Tensor:
        """Like `distances`, but undefined for end-of-sentence symbols and padding."""
        return self.of_pieces(self.word_distances)

    def keys_above(self) -> Tensor:
        """Return a mask of the keys whose word is the query's word or one of its ancestors.

        The mask has the shape (B, Q, K). Its values for end-of-sentence symbols and padding are
        undefined.
        """
        return self.of_pieces(self.ancestors)

    def keys_below(self) -> Tensor:
        """Return a mask of the keys whose word is the query's word or one of its descendants.

        The mask has the shape (B, Q, K). Its values for end-of-sentence symbols and padding are
        undefined.
        """
        return self.of_pieces(self.ancestors.transpose(1, 2))

    def of_pieces(self, table: Tensor) -> Tensor:
        """Expand values of words, (B, W, W), to pieces, (B, Q, K), undefined outside words."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        rows = table.gather(1, inside[:, :, None].expand(-1, -1, table.size(2)))
        return rows.gather(2, inside[:, None, :].expand(-1, inside.size(1), -1))


def padded_labels(
    relations: Sequence[Sequence[int]], parents: Sequence[Sequence[int]], width: int
) -> Tensor:
    """Return relations as in `SourceTree.labels`, (2, B, W), with unknown parts of speech."""
    padded = torch.full((2, len(parents), width), UNKNOWN_LABEL)
    if [len(of_words) for of_words in relations] != [len(tree) for tree in parents]:
        raise InputError("relations must contain one number for each word of each sentence")
    if any(not isinstance(k, int) or k < 0 for of_words in relations for k in of_words):
        raise InputError("relations must be nonnegative integers")
    for row, of_words in enumerate(relations):
        padded[0, row, : len(of_words)] = torch.tensor(of_words).long()
    return padded


def check_sentences(
    parents: Sequence[Sequence[int]], pieces: Sequence[Sequence[int]], lengths: Sequence[int]
) -> None:
    """Raise an InputError if a tree is invalid or does not match the pieces of its sentence."""
    if not len(parents) == len(pieces) == len(lengths):
        raise InputError(
            f"the batch has {len(lengths)} sentences, but there are {len(parents)} trees and "
            f"{len(pieces)} lists of pieces; pass one of each per sentence"
        )
    for row, (tree, sizes, length) in enumerate(zip(parents, pieces, lengths, strict=True)):
        if len(sizes) != len(tree) or sum(sizes) != length:
            raise InputError(
                f"sentence {row} of the batch has {length} pieces (not counting padding), but its "
                f"tree has {len(tree)} words, and its list of pieces has {len(sizes)} words with "
                f"{sum(sizes)} pieces; create all three from the same segmentation"
            )
        if not is_tree(tree):
            raise InputError(
                f"sentence {row} of the batch: {list(tree)} is not a tree; pass the parent of each "
                "word, counted from 1, and 0 for the single root"
            )


def is_tree(parents: Sequence[int]) -> bool:
    """Return whether the words form a tree with a single root, whose parent is 0."""
    level, found = {0}, 0
    while level:
        level = {word for word, parent in enumerate(parents, start=1) if parent in level}
        found += len(level)
    return found == len(parents) and parents.count(0) == min(1, found)
