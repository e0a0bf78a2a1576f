"""Pieces have depths and relations in the tree of their sentence (Wang et al. 2019, Section 3.1).

In training they are computed from two integer tensors of the batch, on its device, without a loop
over words and without waiting for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.core.once import once
from fairseq_posattn.errors import InputError

# Under torch.export, whose graph must serve trees of all sizes, pointers double so often: this is
# enough for 65,536 words, and once they have reached the root they stay there.
MOST_DOUBLINGS = 16
is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # torch 2.1 cannot tell
PADDING = -1
NO_PARENT = -1
PADDING_LABEL, END_LABEL, UNKNOWN_LABEL = 1, 2, 3  # as fairseq numbers <pad>, </s> and <unk>


@dataclass
class SourceTree:
    """This holds the dependency trees of a batch, and which word each piece belongs to.

    words: B T, the number of the word of each piece, counted from 0. The end of sentence counts as
    one more word after all others; padding is -1. parents: B W, the parent of each word of the
    whole tree, where the root is its own parent. labels: 2 B W, the numbers of the relation of each
    word to its parent and of its part of speech; None if the model reads no labels.
    """

    words: Tensor
    parents: Tensor
    has_end: bool = True  # whether the last piece of each sentence is its end of sentence
    labels: Tensor | None = None

    @classmethod
    def of_batch(cls, records: Tensor, real: Tensor) -> SourceTree:
        """Return the trees of a batch of data, whose sentences end with the end of sentence.

        records: 2 B W, the parent of each word (counted from 1, 0 = root) and its number of pieces,
        with zeros after the last word; or 4 B W, with its two labels. real: B T, True = a piece or
        the end of sentence. Of a truncated sentence there are the first pieces and the whole tree.
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
        """Return the trees of sentences that are given as lists, without an end of sentence.

        parents: for each sentence the parent of each word, counted from 1, and 0 for the root.
        padding: bool, B T, True = padding. pieces: how many pieces each word has; one each, if left
        out. relations: the number of the relation of each word, from 3 on (`UNKNOWN_LABEL`), where
        a mechanism reads them. Raise an InputError that names the first sentence which does not
        fit.
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
        """Tell which pieces belong to a word, B T: not the end of sentence, not padding."""
        if not self.has_end:
            return self.words != PADDING
        last = self.words.max(dim=1, keepdim=True).values
        return (self.words != PADDING) & (self.words < last)

    @once
    def depths(self) -> Tensor:
        """Return the number of edges up to the root, B T (Eq. 5).

        The end of sentence gets 1 + the largest depth that is left in its sentence.
        """
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        depths = word_depths(self.parents).gather(1, inside)
        depths = depths.masked_fill(~self.is_word, NO_PARENT)
        end = depths.max(dim=1, keepdim=True).values + 1
        return torch.where(self.is_word, depths, end).masked_fill(self.words == PADDING, 0)

    @once
    def parent_words(self) -> Tensor:
        """Return the parent of the word of each piece, B T; -1 for root, end and padding."""
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        parents = self.parents.gather(1, inside)
        return parents.masked_fill(~self.is_word | (parents == self.words), NO_PARENT)

    @once
    def relation_labels(self) -> Tensor:
        """Return the number of the relation of the word of each piece to its parent, B T."""
        return self.labels_of_pieces(0)

    @once
    def tag_labels(self) -> Tensor:
        """Return the number of the part of speech of the word of each piece, B T."""
        return self.labels_of_pieces(1)

    def labels_of_pieces(self, kind: int) -> Tensor:
        """Return the labels of one kind, B T, with those of the end of sentence and of padding."""
        assert self.labels is not None  # a model that reads labels refuses a batch without them
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        found = self.labels[kind].gather(1, inside)
        found = found.masked_fill(~self.is_word, END_LABEL)
        return found.masked_fill(self.words == PADDING, PADDING_LABEL)

    @once
    def relations(self) -> Tensor:
        """Return the relation of each two pieces, B Q K (Eq. 6).

        It follows rule 1 where one word is the parent of the other, else rule 2. Pieces of one word
        get 0: this is the equation's i - j, read as words.
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
        """Tell where the word of the key is the parent of the word of the query, B Q K."""
        key_word = self.of_keys(self.words)
        return (self.of_queries(self.parent_words) == key_word) & (key_word != PADDING)

    @once
    def keys_that_are_children(self) -> Tensor:
        """Tell where the word of the query is the parent of the word of the key, B Q K."""
        query_word = self.of_queries(self.words)
        return (self.of_keys(self.parent_words) == query_word) & (query_word != PADDING)

    @once
    def ancestors(self) -> Tensor:
        """Tell for each word which words lie on its way up to the root, itself too: B W W."""
        return word_ancestors(self.parents)

    @once
    def word_distances(self) -> Tensor:
        """Return the number of edges between each two words, B W W.

        It is depth(v) + depth(w) - 2 (n - 1), where n counts the ancestors that both have.
        """
        ancestors = self.ancestors.float()  # numbers of words are exact in float32
        both = ancestors @ ancestors.transpose(1, 2)
        counts = ancestors.sum(dim=2)  # depth + 1
        return (counts[:, :, None] + counts[:, None, :] - 2 * both).long()

    @once
    def distances(self) -> Tensor:
        """Return the number of edges between the words of each two pieces, B Q K.

        It is 0 between pieces of one word, and for the end of sentence with itself; -1 where one of
        the two is the end of sentence, or padding.
        """
        outside = ~(self.of_queries(self.is_word) & self.of_keys(self.is_word))
        same = self.of_queries(self.words) == self.of_keys(self.words)
        found = self.edges_between().masked_fill(outside, NO_PARENT)
        return found.masked_fill(outside & same, 0)

    def edges_between(self) -> Tensor:
        """Return the number of edges between the words of each two pieces, B Q K.

        It has no meaning where a piece belongs to no word, as in the next two.
        """
        return self.of_pieces(self.word_distances)

    def keys_above(self) -> Tensor:
        """Tell where the word of the key lies on the way from that of the query to the root, or is
        the same word: B Q K."""
        return self.of_pieces(self.ancestors)

    def keys_below(self) -> Tensor:
        """Tell where the word of the query lies on the way from that of the key to the root, or is
        the same word: B Q K."""
        return self.of_pieces(self.ancestors.transpose(1, 2))

    def of_pieces(self, table: Tensor) -> Tensor:
        """Return what a table says of two words, B W W, for each two pieces, B Q K.

        What it says of the end of sentence and of padding has no meaning.
        """
        inside = self.words.clamp(0, self.parents.size(1) - 1)
        rows = table.gather(1, inside[:, :, None].expand(-1, -1, table.size(2)))
        return rows.gather(2, inside[:, None, :].expand(-1, inside.size(1), -1))


def padded_labels(
    relations: Sequence[Sequence[int]], parents: Sequence[Sequence[int]], width: int
) -> Tensor:
    """Return relations as `SourceTree.labels` has them, 2 B W; parts of speech are unknown."""
    padded = torch.full((2, len(parents), width), UNKNOWN_LABEL)
    if [len(of_words) for of_words in relations] != [len(tree) for tree in parents]:
        raise InputError("relations: give one number for each word of each sentence")
    if any(not isinstance(k, int) or k < 0 for of_words in relations for k in of_words):
        raise InputError("relations: give whole numbers from 0 on")
    for row, of_words in enumerate(relations):
        padded[0, row, : len(of_words)] = torch.tensor(of_words).long()
    return padded


def doublings(words: int) -> int:
    """Return how often pointers double their step until all of them have reached the root."""
    return MOST_DOUBLINGS if is_exporting() else max(words - 1, 1).bit_length()


def word_ancestors(parents: Tensor) -> Tensor:
    """Tell which words lie on the way from each word to the root, B W W, in log2(W) steps."""
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
    """Return the depths of words, B W, from their parents, by pointer doubling in log2(W) steps."""
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
    """Refuse trees that do not fit the pieces of their sentences, or that are no trees."""
    if not len(parents) == len(pieces) == len(lengths):
        raise InputError(
            f"{len(parents)} trees and {len(pieces)} lists of pieces for a batch of {len(lengths)} "
            "sentences; give one of each for each sentence"
        )
    for row, (tree, sizes, length) in enumerate(zip(parents, pieces, lengths, strict=True)):
        if len(sizes) != len(tree) or sum(sizes) != length:
            raise InputError(
                f"sentence {row} of the batch has {length} pieces that are no padding, but a tree "
                f"of {len(tree)} words with {sum(sizes)} pieces; make the two agree"
            )
        if not is_tree(tree):
            raise InputError(
                f"sentence {row} of the batch: {list(tree)} is no tree; give the parent of each "
                "word, counted from 1, and 0 for the one root"
            )


def is_tree(parents: Sequence[int]) -> bool:
    """Tell whether there is one root, parent 0, to which the parents of every word lead."""
    level, found = {0}, 0
    while level:
        level = {word for word, parent in enumerate(parents, start=1) if parent in level}
        found += len(level)
    return found == len(parents) and parents.count(0) == min(1, found)
