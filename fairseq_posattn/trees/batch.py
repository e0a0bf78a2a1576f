"""Collate the trees of a batch into one padded array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import Tree
from fairseq_posattn.trees.store_format import LABELLED_WORD, WORD

Numbers = tuple[Sequence[int], Sequence[int]]  # of the relations and of the parts of speech


def pack(
    trees: Sequence[tuple[Sequence[int], Sequence[int]] | Tree],
    labels: Sequence[Numbers] | None = None,
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return one record per word of all sentences, and the number of words of each sentence.

    trees: for each sentence, the parents of its words and their numbers of pieces. labels: for each
    sentence, the indices of relations and parts of speech; None: no labels.
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
    """Return an array 2 B W with the parent and the number of pieces of each word, zero-padded.

    With labels it is 4 B W, including the indices of relations and parts of speech.

    records, lengths: the result of `pack`.
    pieces: number of pieces of each sentence in the batch, without the end of sentence; the tree of
        a truncated sentence is complete.
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
