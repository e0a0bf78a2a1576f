"""Encode words of a treebank as the mean of their pieces' vectors, and prepare their trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_posattn.probing.encoding import Batch, SentenceEncoder
from fairseq_posattn.probing.vectors import Places, Vectors, joined
from fairseq_posattn.text.live.segmented import SegmentedLine
from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.sentence import NO_TAGS, Sentence


@dataclass(frozen=True)
class WordTree:
    """A treebank sentence, without the words that have no pieces.

    forms: the words in lower case.
    parents: the index of each word's parent among these words; -1 for the root, and for words whose
        parent has no pieces.
    distances, depths: the numbers of edges in the complete tree.
    punctuation: a mask of the words that are punctuation.
    """

    forms: list[str]
    parents: NDArray[np.int64]
    relations: list[str]
    tags: list[str]
    distances: NDArray[np.int64]
    depths: NDArray[np.int64]
    punctuation: NDArray[np.bool_]

    @classmethod
    def of(cls, sentence: Sentence, counts: Sequence[int]) -> WordTree:
        """Drop the words of a sentence that have no pieces.

        counts: the number of pieces of each word.
        """
        kept = np.flatnonzero(counts)
        places = np.full(len(counts) + 1, -1)
        places[kept] = np.arange(len(kept))
        parents = list(sentence.parents or ())
        tags = [tag.upos for tag in sentence.tags or [NO_TAGS] * len(parents)]
        relations = sentence.relations or ["_"] * len(parents)
        return cls(
            forms=[sentence.words[k].lower() for k in kept],
            parents=places[np.array(parents, dtype=int)[kept] - 1],
            relations=[relations[k].partition(":")[0] for k in kept],
            tags=[tags[k] for k in kept],
            distances=distances(parents)[np.ix_(kept, kept)],
            depths=np.array(depths(parents))[kept],
            punctuation=np.array([tags[k] == "PUNCT" for k in kept], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.forms)


def distances(parents: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of edges between each pair of words; the indices of parents start at 1."""
    size = len(parents)
    above = np.zeros((size, size), dtype=bool)  # for each word, itself and its ancestors
    for word in range(size):
        at = word + 1
        while at:
            above[word, at - 1] = True
            at = parents[at - 1]
    depth = above.sum(axis=1)
    shared = above.astype(np.int64) @ above.T.astype(np.int64)  # number of common ancestors
    found: NDArray[np.int64] = depth[:, None] + depth - 2 * shared
    return found


@dataclass
class WordPart:
    """The sentences of one split of a treebank, segmented for a model.

    trees: the trees that the model reads, which may differ from those of the treebank.
    """

    encoder: SentenceEncoder
    gold: list[Sentence]
    trees: list[Sentence] | None

    @cached_property
    def lines(self) -> list[SegmentedLine]:
        return self.encoder.segmented([str(sentence) for sentence in self.gold], self.trees)

    @cached_property
    def counts(self) -> list[list[int]]:
        """The number of pieces of each word of the treebank."""
        pairs = zip(self.lines, self.gold, strict=True)
        return [list(line.project(self.encoder.normal(gold))[1]) for line, gold in pairs]

    @cached_property
    def words(self) -> list[WordTree]:
        pairs = zip(self.gold, self.counts, strict=True)
        return [WordTree.of(sentence, counts) for sentence, counts in pairs]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The cumulative number of words up to the end of each sentence, starting with 0."""
        return np.cumsum([0, *map(len, self.words)])

    def encode(self, start: int, end: int) -> Iterator[tuple[Places, Vectors]]:
        """Encode the sentences from `start` to `end`, and yield word indices and vectors by batch.

        The indices refer to the words of all sentences; the vectors are of shape (words, layers,
        width).
        """
        trees = self.trees and self.trees[start:end]
        for batch in self.encoder.batches(self.lines[start:end], trees):
            numbers = start + batch.numbers
            counts = [[n for n in self.counts[k] if n] for k in numbers]
            places = [np.arange(self.ends[k], self.ends[k + 1]) for k in numbers]
            yield np.concatenate(places), word_vectors(batch, counts)


def word_vectors(batch: Batch, counts: Sequence[Sequence[int]]) -> Vectors:
    """Return the mean vector of each word's pieces, as an array of shape (words, layers, width)."""
    flat = torch.tensor([n for of_sentence in counts for n in of_sentence])
    word = torch.repeat_interleave(torch.arange(len(flat)), flat).to(batch.real.device)
    found = []
    for layer in [*batch.layers, batch.embeddings]:
        pieces = layer[batch.real]
        sums = pieces.new_zeros(len(flat), pieces.shape[1]).index_add_(0, word, pieces)
        found.append(sums / flat.to(pieces)[:, None])
    return joined(found)
