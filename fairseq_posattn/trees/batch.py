"""The trees of a batch as two padded integer arrays, in the layout of the batch's pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store import WORD, ranges

PADDING = -1


def pack(trees: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """(parents, pieces) of each sentence -> records of all words, and words per sentence."""
    lengths = np.array([len(parents) for parents, _ in trees], np.int64)
    records = np.empty(lengths.sum(), WORD)
    records["parent"] = [parent for parents, _ in trees for parent in parents]
    records["pieces"] = [count for _, pieces in trees for count in pieces]
    return records, lengths


def collate(
    records: np.ndarray, lengths: np.ndarray, real: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """records, lengths: as `pack` returns them; real: B T, True = a real piece, on either side.

    Returns words B T, the word of each piece, with end of sentence as the word after the last and
    -1 for padding; and parents B W, the parent of each word counted from 0, the root its own.
    Where a sentence was truncated, its last pieces fall away and its tree stays whole.
    """
    return words_of_columns(records, lengths, real), padded_parents(records, lengths)


def words_of_columns(records: np.ndarray, lengths: np.ndarray, real: np.ndarray) -> np.ndarray:
    rows = np.arange(len(lengths))
    word_in_row = ranges(np.zeros_like(lengths), lengths)
    counts = records["pieces"].astype(np.int64)
    word_of_piece = np.repeat(word_in_row, counts)
    pieces = np.bincount(np.repeat(rows, lengths), weights=counts, minlength=len(rows))
    pieces = pieces.astype(np.int64)
    kept = real.sum(axis=1) - 1  # the last real column is end of sentence
    check_lengths(pieces, kept)
    starts = np.cumsum(pieces) - pieces
    filled = np.empty(int((kept + 1).sum()), np.int64)
    ends = np.cumsum(kept + 1) - 1
    filled[ends] = lengths
    filled[ranges(ends - kept, kept)] = word_of_piece[ranges(starts, kept)]
    words = np.full(real.shape, PADDING, np.int64)
    words[real] = filled
    return words


def check_lengths(pieces: np.ndarray, kept: np.ndarray) -> None:
    short = np.flatnonzero(pieces < kept)
    if len(short):
        row = short[0]
        raise TreeError(
            f"sentence {row + 1} of a batch has {kept[row]} pieces, its tree only {pieces[row]}"
        )


def padded_parents(records: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """B W; what is beyond a sentence's words is its own parent, like a root."""
    width = max(int(lengths.max(initial=0)), 1)
    own = np.arange(width)
    parents = np.tile(own, (len(lengths), 1))
    parent = records["parent"].astype(np.int64) - 1
    word = ranges(np.zeros_like(lengths), lengths)
    parents[own < lengths[:, None]] = np.where(parent < 0, word, parent)
    return parents
