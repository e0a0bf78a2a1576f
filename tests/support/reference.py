"""Slow references for structural positions are written here from the papers' equations.

Plain loops over Python numbers and float64 scalars; nothing is vectorised and nothing
of the package is used, so that an error there cannot hide here. A vector may be given
as a list or a tensor. What is computed from tensors stays differentiable.

Papers: Wang et al. 2019, "Self-Attention with Structural Position Representations"
(equation numbers without a name); Shaw et al. 2018; Vaswani et al. 2017.
"""

import torch

# --- trees: depth and relation -------------------------------------------------------


def depths(parents: list[int]) -> list[int]:
    """Return the edges from each word up to the root (Eq. 5). Parents count from 1, 0 = root."""
    found = []
    for word in range(1, len(parents) + 1):
        steps = 0
        while parents[word - 1] != 0:
            word = parents[word - 1]
            steps += 1
            if steps > len(parents):
                raise ValueError(f"no root above word {word}: {parents}")
        found.append(steps)
    return found


def word_of_pieces(pieces: list[int], keep: int | None = None) -> list[int]:
    """The word (from 0) of each piece; only the first `keep` pieces remain."""
    words = []
    for word, count in enumerate(pieces):
        for _ in range(count):
            if keep is None or len(words) < keep:
                words.append(word)
    return words


def one_based(tree) -> tuple[list[int], list[int]]:
    """Return parents and numbers of pieces of a tree of `core.attention.sample_batch`."""
    words, parents = tree
    counts = [words.count(word) for word in range(len(parents))]
    return [0 if p == w else p + 1 for w, p in enumerate(parents)], counts


def piece_depths(parents: list[int], pieces: list[int], keep: int | None = None) -> list[int]:
    """Return one depth for each piece, then end of sentence (Eq. 5 and the text below it).

    Truncation keeps the depths of the full tree; end of sentence is 1 + the largest
    depth that remains. Where nothing remains that largest depth counts as -1, so that
    end of sentence alone has depth 0 (ours: the paper knows no empty sentence).
    """
    assert len(parents) == len(pieces), (parents, pieces)
    of_word = depths(parents)
    of_piece = []
    for word in word_of_pieces(pieces, keep):
        of_piece.append(of_word[word])
    largest = -1
    for depth in of_piece:
        largest = max(largest, depth)
    return of_piece + [largest + 1]


def relations(parents: list[int], pieces: list[int], keep: int | None = None) -> list[list[int]]:
    """Return relations by rules 1 and 2 (Eq. 6), unclipped, for all pieces and end of sentence.

    Row i is the query, column j the key. Ours: i - j of Eq. 6 runs over words, so that
    pieces of one word get 0; end of sentence is a word after every other, without edge.
    """
    end_of_sentence = len(parents)
    words = word_of_pieces(pieces, keep) + [end_of_sentence]
    depth = piece_depths(parents, pieces, keep)
    matrix = []
    for i in range(len(words)):
        row = []
        for j in range(len(words)):
            if _same_edge(parents, words[i], words[j]):  # rule 1
                row.append(depth[i] - depth[j])
            else:  # rule 2
                order = (words[i] > words[j]) - (words[i] < words[j])  # f_stru
                row.append(order * (depth[i] + depth[j]))
        matrix.append(row)
    return matrix


def _same_edge(parents: list[int], one: int, other: int) -> bool:
    """Is one the parent of the other? Words from 0; end of sentence has no edge."""
    if one == len(parents) or other == len(parents):
        return False
    return parents[one] - 1 == other or parents[other] - 1 == one


# --- indices into the tables of 2r + 1 rows ------------------------------------------


def clip(x: int, r: int) -> int:
    """Return max(-r, min(r, x)), as Shaw et al. do in section 3.2."""
    return max(-r, min(r, x))


def relative_index(i: int, j: int, r: int) -> int:
    """Return the row of the table for query i, key j: the sign runs key - query (Shaw et al.)."""
    return clip(j - i, r) + r


def tree_index(relation: int, r: int) -> int:
    """Return the row of the table for a tree relation, whose sign runs query - key (Eq. 6)."""
    return clip(relation, r) + r


# --- numbers -------------------------------------------------------------------------


def linear(x, weight, bias=None):
    """y = W x + b, one vector, W as nn.Linear has it: a row for each output."""
    weight = _numbers(weight)
    out = [_dot(row, x) for row in weight]
    return out if bias is None else _sum(out, _vector(bias))


def _softmax(scores: dict) -> dict:
    """Return the softmax over the keys of the dictionary; of nothing: nothing."""
    if not scores:
        return {}
    largest = max(score.item() for score in scores.values())
    powers = {j: torch.exp(score - largest) for j, score in scores.items()}
    total = _scalar(0.0)
    for power in powers.values():
        total = total + power
    return {j: power / total for j, power in powers.items()}


def _dot(one: list, other: list):
    total = _scalar(0.0)
    for a, b in zip(one, other, strict=True):
        total = total + a * b
    return total


def _sum(one: list, other: list) -> list:
    return [a + b for a, b in zip(one, other, strict=True)]


def _scalar(number):
    return torch.as_tensor(number, dtype=torch.float64)


def _vector(vector) -> list:
    """Return a list or tensor as a list of float64 scalars."""
    return [_scalar(number) for number in vector]


def _numbers(matrix) -> list:
    """Return a list of vectors or a two-dimensional tensor as lists of float64 scalars."""
    return [_vector(row) for row in matrix]


def _stack(rows: list) -> torch.Tensor:
    return torch.stack([torch.stack(row) for row in rows])
