"""Collate the trees of a batch into one padded array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import Tree
from fairseq_posattn.trees.store_format import LABELLED_WORD, WORD

Numbers = tuple[Sequence[int], Sequence[int]]  # indices of relations and of parts of speech


def pack(
    trees: Sequence[tuple[Sequence[int], Sequence[int]] | Tree],
    labels: Sequence[Numbers] | None = None,
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Concatenate the trees of several sentences into one array with one record per word.

    Return this array and the number of words in each sentence.

    trees: for each sentence, the parents of its words and the number of pieces of each word.
    labels: for each sentence, the indices of its relations and of its parts of speech, or None if
        the trees have no labels.
    """
    lengths = np.array([len(tree[0]) for tree in trees], np.int64)
    records = np.empty(lengths.sum(), WORD if labels is None else LABELLED_WORD)
    records["parent"] = [parent for tree in trees for parent in tree[0]]
    records["pieces"] = [count for tree in trees for count in tree[1]]
    if labels is not None:
        records["relation"] = [number for relations, _ in labels for number in relations]
        records["tag"] = [number for _, tags in labels for number in tags]
    return records, lengths


def collate(
    records: NDArray[np.void], lengths: NDArray[np.int64], pieces: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Pad the trees of a batch with zeros and return them as one array.

    The array has the shape (2, sentences, words) and contains the parent and the number of pieces
    of each word. With labels, the shape is (4, sentences, words), and the array also contains the
    indices of the relation and the part of speech of each word. Raise a TreeError if a sentence has
    more pieces than its tree.

    records, lengths: the result of `pack`.
    pieces: number of pieces in each sentence, without the end-of-sentence symbol. A truncated
        sentence has fewer pieces than its tree, because trees are never truncated.
    """
    width = max(int(lengths.max(initial=0)), 1)
    fields = records.dtype.names or ()
    padded = np.zeros((len(fields), len(lengths), width), np.int32)
    place = np.flatnonzero(np.arange(width) < lengths[:, None])
    for row, field in zip(padded.reshape(len(fields), -1), fields, strict=True):
        row[place] = records[field]
    missing = np.flatnonzero(padded[1].sum(axis=1) < pieces)
    if len(missing):
        raise TreeError(
            f"sentence {missing[0] + 1} of a batch has {pieces[missing[0]]} pieces, but its tree "
            f"has only {padded[1, missing[0]].sum()}; binarize trees and text again"
        )
    return padded
