"""The trees of a batch in one padded array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store_format import WORD


def pack(
    trees: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """(parents, pieces) of each sentence -> records of all words, and words per sentence."""
    lengths = np.array([len(parents) for parents, _ in trees], np.int64)
    records = np.empty(lengths.sum(), WORD)
    records["parent"] = [parent for parents, _ in trees for parent in parents]
    records["pieces"] = [count for _, pieces in trees for count in pieces]
    return records, lengths


def collate(
    records: NDArray[np.void], lengths: NDArray[np.int64], pieces: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Records as `pack` returns them -> 2 B W: parent and pieces of each word, zeros beyond.

    pieces: how many of each sentence are in the batch, without end of sentence. Where a sentence
    was truncated, its tree is still whole.
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
            f"its tree only {padded[1, missing[0]].sum()}"
        )
    return padded
