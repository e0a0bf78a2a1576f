"""Depths and relations of pieces in the trees of a batch (Wang et al. 2019, Section 3.1).

In training they are computed on the device from two integer tensors of the batch, without a loop
over words and without synchronisation with the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.once import once
from fairseq_posattn.errors import InputError

# Number of doubling steps under torch.export, whose graph must support trees of all sizes. It
# suffices for 65,536 words; more steps than necessary do no harm.
MOST_DOUBLINGS = 16
is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # missing in torch 2.1
PADDING = -1
NO_PARENT = -1
PADDING_LABEL, END_LABEL, UNKNOWN_LABEL = 1, 2, 3  # as fairseq numbers <pad>, </s> and <unk>


@dataclass
class SourceTree:
    """The dependency trees of a batch, with the word of each piece.

        tree = SourceTree.from_parents([[2, 0, 2]], padding)  # one sentence of three words

    words: B T, index of the word of each piece, from 0; the end of sentence has an index greater
    than all words of its tree, and padding -1. parents: B W, index of the parent of each word of
    the whole tree; the root is its own parent. labels: 2 B W, indices of each word's relation and
    part of speech; None if the model reads no labels.
    """

    words: Tensor
    parents: Tensor
    has_end: bool = True  # whether the last piece of each sentence is the end-of-sentence symbol
    labels: Tensor | None = None

    @classmethod
    def of_batch(cls, records: Tensor, real: Tensor) -> SourceTree:
        """Return the trees of a batch of the data set, whose sentences have an end of sentence.

        records: 2 B W, the parent of each word (from 1, 0 = root) and its number of pieces, padded
        with zeros; or 4 B W, also with its two labels. real: B T, True = a piece or the end of
        sentence. The tree of a truncated sentence is complete.
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
        """Return the trees of sentences given as lists, without an end of sentence.

        parents: the parent of each word of each sentence, from 1, 0 for the root. padding: bool,
        B T, True = padding. pieces: number of pieces per word (default: 1). relations: index of
        each word's relation, from 3 on (`UNKNOWN_LABEL`), if a mechanism reads them. Raise an
        InputError for the first sentence that is inconsistent.
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
        """Return which pieces belong to a word, B T: neither end of sentence nor padding."""
        if not self.has_end:
            return self.words != PADDING
        last = self.words.max(dim=1, keepdim=True).values
        return (self.words != PADDING) & (self.words < last)

    @once
    def depths(self) -> Tensor:
        """Return the number of edges from each piece's word to the root, B T (Eq. 5).

        The end of sentence gets 1 + the largest depth of a piece in its sentence.
        """
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        depths = word_depths(self.parents).gather(1, inside)
        depths = depths.masked_fill(~self.is_word, NO_PARENT)
        end = depths.max(dim=1, keepdim=True).values + 1
        return torch.where(self.is_word, depths, end).masked_fill(self.words == PADDING, 0)

    @once
    def parent_words(self) -> Tensor:
        """Return the parent of each piece's word, B T; -1 for root, end and padding."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        parents = self.parents.gather(1, inside)
        return parents.masked_fill(~self.is_word | (parents == self.words), NO_PARENT)

    @once
    def relation_labels(self) -> Tensor:
        """Return the relation of each piece's word to its parent as an index, B T."""
        return self.labels_of_pieces(0)

    @once
    def tag_labels(self) -> Tensor:
        """Return the part of speech of each piece's word as an index, B T."""
        return self.labels_of_pieces(1)

    def labels_of_pieces(self, kind: int) -> Tensor:
        """Return the labels of one type, B T, with special labels outside of words."""
        assert self.labels is not None  # a model that reads labels refuses a batch without them
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        found = self.labels[kind].gather(1, inside)
        found = found.masked_fill(~self.is_word, END_LABEL)
        return found.masked_fill(self.words == PADDING, PADDING_LABEL)

    @once
    def relations(self) -> Tensor:
        """Return the relation of each query and key, B Q K (Eq. 6).

        Rule 1 applies if one word is the parent of the other, else rule 2. The relation is 0 within
        a word, because the equation's i - j is computed for words.
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
        """Return whether the key's word is the parent of the query's word, B Q K."""
        key_word = self.of_keys(self.words)
        return (self.of_queries(self.parent_words) == key_word) & (key_word != PADDING)

    @once
    def keys_that_are_children(self) -> Tensor:
        """Return whether the query's word is the parent of the key's word, B Q K."""
        query_word = self.of_queries(self.words)
        return (self.of_keys(self.parent_words) == query_word) & (query_word != PADDING)

    @once
    def ancestors(self) -> Tensor:
        """Return the ancestors of each word, including itself, as a mask, B W W."""
        return word_ancestors(self.parents)

    @once
    def word_distances(self) -> Tensor:
        """Return the number of edges between each two words, B W W.

        It is depth(v) + depth(w) - 2 (n - 1) with n common ancestors.
        """
        ancestors = self.ancestors.float()  # counts of words are exact in float32
        both = ancestors @ ancestors.transpose(1, 2)
        counts = ancestors.sum(dim=2)  # depth + 1
        return (counts[:, :, None] + counts[:, None, :] - 2 * both).long()

    @once
    def distances(self) -> Tensor:
        """Return the number of edges between the words of each query and key, B Q K.

        It is 0 within a word and for the end of sentence with itself, and -1 if one of the two is
        the end of sentence or padding.
        """
        outside = ~(self.of_queries(self.is_word) & self.of_keys(self.is_word))
        same = self.of_queries(self.words) == self.of_keys(self.words)
        found = self.edges_between().masked_fill(outside, NO_PARENT)
        return found.masked_fill(outside & same, 0)

    def edges_between(self) -> Tensor:
        """Like `distances`, but undefined for pieces outside of words, as are the next two."""
        return self.of_pieces(self.word_distances)

    def keys_above(self) -> Tensor:
        """Return whether the key's word is the query's word or an ancestor of it, B Q K."""
        return self.of_pieces(self.ancestors)

    def keys_below(self) -> Tensor:
        """Return whether the key's word is the query's word or a descendant of it, B Q K."""
        return self.of_pieces(self.ancestors.transpose(1, 2))

    def of_pieces(self, table: Tensor) -> Tensor:
        """Expand a table of two words, B W W, to query and key pieces, B Q K.

        The values for the end of sentence and padding are undefined.
        """
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        rows = table.gather(1, inside[:, :, None].expand(-1, -1, table.size(2)))
        return rows.gather(2, inside[:, None, :].expand(-1, inside.size(1), -1))


def padded_labels(
    relations: Sequence[Sequence[int]], parents: Sequence[Sequence[int]], width: int
) -> Tensor:
    """Return relations as `SourceTree.labels`, 2 B W, with unknown parts of speech."""
    padded = torch.full((2, len(parents), width), UNKNOWN_LABEL)
    if [len(of_words) for of_words in relations] != [len(tree) for tree in parents]:
        raise InputError("relations must contain one number for each word of each sentence")
    if any(not isinstance(k, int) or k < 0 for of_words in relations for k in of_words):
        raise InputError("relations must be whole numbers from 0 on")
    for row, of_words in enumerate(relations):
        padded[0, row, : len(of_words)] = torch.tensor(of_words).long()
    return padded


def doublings(words: int) -> int:
    """Return the number of doubling steps until all pointers have reached the root."""
    return MOST_DOUBLINGS if is_exporting() else max(words - 1, 1).bit_length()


def word_ancestors(parents: Tensor) -> Tensor:
    """Return the ancestors of each word, including itself, B W W, by pointer doubling."""
    length = parents.size(1)
    own = torch.arange(length, device=parents.device)
    found = own[:, None] == own  # W W
    found = found | (own == parents[:, :, None])  # B W W: itself and its parent
    above = parents
    for _ in range(doublings(length)):
        above = above.gather(1, above)
        found = found | found.gather(1, above[:, :, None].expand(-1, -1, length))
    return found


def word_depths(parents: Tensor) -> Tensor:
    """Return the depths of words, B W, from their parents, by pointer doubling."""
    length = parents.size(1)
    depths = (parents != torch.arange(length, device=parents.device)).long()
    ancestors = parents
    for _ in range(doublings(length)):
        depths = depths + depths.gather(1, ancestors)
        ancestors = ancestors.gather(1, ancestors)
    return depths


def check_sentences(
    parents: Sequence[Sequence[int]], pieces: Sequence[Sequence[int]], lengths: Sequence[int]
) -> None:
    """Refuse invalid trees, and trees that do not match the pieces of their sentences."""
    if not len(parents) == len(pieces) == len(lengths):
        raise InputError(
            f"the batch has {len(lengths)} sentences, but there are {len(parents)} trees and "
            f"{len(pieces)} lists of pieces; pass one of each per sentence"
        )
    for row, (tree, sizes, length) in enumerate(zip(parents, pieces, lengths, strict=True)):
        if len(sizes) != len(tree) or sum(sizes) != length:
            raise InputError(
                f"sentence {row} of the batch has {length} pieces without padding, but its tree "
                f"has {len(tree)} words with {sum(sizes)} pieces; make them agree"
            )
        if not is_tree(tree):
            raise InputError(
                f"sentence {row} of the batch: {list(tree)} is not a tree; pass the parent of each "
                "word, counted from 1, and 0 for the single root"
            )


def is_tree(parents: Sequence[int]) -> bool:
    """Return whether all words descend from a single root, whose parent is 0."""
    level, found = {0}, 0
    while level:
        level = {word for word, parent in enumerate(parents, start=1) if parent in level}
        found += len(level)
    return found == len(parents) and parents.count(0) == min(1, found)
