"""Put the trees of a batch into one padded array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store_format import WORD


def pack(
    trees: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return records of the words of all sentences, and the number of words of each sentence.

    trees: the parents of the words, and the number of pieces of each word, for each sentence.
    """
    lengths = np.array([len(parents) for parents, _ in trees], np.int64)
    records = np.empty(lengths.sum(), WORD)
    records["parent"] = [parent for parents, _ in trees for parent in parents]
    records["pieces"] = [count for _, pieces in trees for count in pieces]
    return records, lengths


def collate(
    records: NDArray[np.void], lengths: NDArray[np.int64], pieces: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return an array 2 B W: the parent and the number of pieces of each word, padded by zeros.

    records, lengths: as `pack` returns them.
    pieces: how many pieces of each sentence the batch has, without end of sentence. Where a
        sentence was truncated, its tree is still whole.
    """
    width = max(int(lengths.max(initial=0)), 1)
    padded = np.zeros((2, len(lengths), width), np.int32)
    place = np.flatnonzero(np.arange(width) < lengths[:, None])
    parents, counts = padded.reshape(2, -1)
    parents[place], counts[place] = records["parent"], records["pieces"]
    missing = np.flatnonzero(padded[1].sum(axis=1) < pieces)
    if len(missing):
        raise TreeError(
            f"sentence {missing[0] + 1} of a batch has {pieces[missing[0]]} pieces, "
            f"but its tree has only {padded[1, missing[0]].sum()}"
        )
    return padded
