"""Slow references for structural positions are written here from the papers' equations.

Plain loops over Python numbers and float64 scalars; nothing is vectorised and nothing
of the package is used, so that an error there cannot hide here. A vector may be given
as a list or a tensor. What is computed from tensors stays differentiable.

Papers: Wang et al. 2019, "Self-Attention with Structural Position Representations"
(equation numbers without a name); Shaw et al. 2018; Vaswani et al. 2017.
"""

import math

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
                row.append(_sign(words[i] - words[j]) * (depth[i] + depth[j]))
        matrix.append(row)
    return matrix


def _same_edge(parents: list[int], one: int, other: int) -> bool:
    """Is one the parent of the other? Words from 0; end of sentence has no edge."""
    if one == len(parents) or other == len(parents):
        return False
    return parents[one] - 1 == other or parents[other] - 1 == one


def _sign(x: int) -> int:
    """Return the sign of a number: f_stru of Eq. 6."""
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


# --- indices into the tables of 2r + 1 rows ------------------------------------------


def clip(x: int, r: int) -> int:
    """Return max(-r, min(r, x)), as Shaw et al. do in section 3.2."""
    if x > r:
        return r
    if x < -r:
        return -r
    return x


def relative_index(i: int, j: int, r: int) -> int:
    """Return the row of the table for query i, key j: the sign runs key - query (Shaw et al.)."""
    return clip(j - i, r) + r


def tree_index(relation: int, r: int) -> int:
    """Return the row of the table for a tree relation, whose sign runs query - key (Eq. 6)."""
    return clip(relation, r) + r


def relative_indices(count: int, r: int) -> list[list[int]]:
    """Return `relative_index` for every pair of `count` pieces."""
    return [[relative_index(i, j, r) for j in range(count)] for i in range(count)]


def tree_indices(matrix: list[list[int]], r: int) -> list[list[int]]:
    """Return `tree_index` for every entry of a relation matrix."""
    return [[tree_index(relation, r) for relation in row] for row in matrix]


# --- absolute positions --------------------------------------------------------------


def sinusoid(value: int, width: int) -> list[float]:
    """Compute Eq. 3 with fairseq's frequencies and layout: all sines, then all cosines.

    frequency_k = exp(-k log(10000) / (width // 2 - 1)); an odd width ends in a 0. The
    value is the depth itself, no offset. Widths below 4 have no such frequencies.
    """
    half = width // 2
    angles = []
    for k in range(half):
        angles.append(value * math.exp(-k * math.log(10000) / (half - 1)))
    numbers = [math.sin(angle) for angle in angles]
    numbers += [math.cos(angle) for angle in angles]
    if width % 2 == 1:
        numbers.append(0.0)
    return numbers


def encoder_positions(embedded, sequence, depths, mode, weight=None, bias=None):
    """Return the embedding of one sentence, width w, with positions added to it (Eq. 7).

    embedded  I x w, already multiplied by embed_scale (positions are not)
    sequence  I x w, the row of fairseq's own table for each piece
    depths    I, the depth of each piece and of end of sentence
    mode      'none'        embedded
              'sequence'    embedded + sequence
              'tree_depth'  embedded + sinusoid(depth)
              'add'         embedded + sequence + sinusoid(depth)      (footnote 1)
              'nonlinear'   embedded + tanh(W [sequence ; sinusoid(depth)] + b)
    weight, bias  W (w x 2w) and b (w) of 'nonlinear'
    The paper does not print f_abs: the tanh is ours.
    """
    embedded = _numbers(embedded)
    sequence = None if sequence is None else _numbers(sequence)
    out = []
    for i in range(len(embedded)):
        width = len(embedded[i])
        tree = None if depths is None else _vector(sinusoid(int(depths[i]), width))
        if mode == "none":
            position = _vector([0.0] * width)
        elif mode == "sequence":
            position = sequence[i]
        elif mode == "tree_depth":
            position = tree
        elif mode == "add":
            position = _sum(sequence[i], tree)
        elif mode == "nonlinear":
            both = [*sequence[i], *tree]  # [seq ; tree], 2w numbers
            position = [torch.tanh(number) for number in linear(both, weight, bias)]
        else:
            raise ValueError(f"unknown mode {mode!r}")
        out.append(_sum(embedded[i], position))
    return _stack(out)


# --- attention -----------------------------------------------------------------------


def relation_aware_attention(q, k, v, terms, allowed=None):
    """Compute one head of one sentence by Eq. 3 and 4 of Shaw et al.

    s_ij = q_i . (k_j + sum K[c(i,j)]) / sqrt(d),    a_ij = softmax_j(s_ij)
    o_i = sum_j a_ij (v_j + sum V[c(i,j)])

    q, k, v  I x d
    terms    list of (c, K, V): c[i][j] a row number, K and V tables of rows of width d
    allowed  allowed[i][j] True = query i may attend to key j; None = everywhere
    Both sums run over the terms. A row that is allowed nothing gives zeros.
    Returns o (I x d) and a (I x I).
    """
    q, k, v = _numbers(q), _numbers(k), _numbers(v)
    terms = [(c, _numbers(key), _numbers(value)) for c, key, value in terms]
    outputs, weights = [], []
    for i in range(len(q)):
        scores = {}
        for j in range(len(k)):
            if allowed is None or bool(allowed[i][j]):
                key = k[j]
                for c, key_table, _ in terms:
                    key = _sum(key, key_table[int(c[i][j])])
                scores[j] = _dot(q[i], key) / math.sqrt(len(q[i]))
        a = _softmax(scores)
        o = _vector([0.0] * len(v[0]))
        for j in a:
            value = v[j]
            for c, _, value_table in terms:
                value = _sum(value, value_table[int(c[i][j])])
            o = [number + a[j] * part for number, part in zip(o, value, strict=True)]
        outputs.append(o)
        weights.append([a[j] if j in a else _scalar(0.0) for j in range(len(k))])
    return _stack(outputs), _stack(weights)


def shaw_multi_head(x, projections, heads, terms, allowed=None):
    """Compute multi-head self-attention of one sentence, Eq. 1 and 2 with Shaw's Eq. 3 and 4.

    x            I x w
    projections  {'q_proj', 'k_proj', 'v_proj', 'out_proj'} -> (W, b), W as nn.Linear
                 has it (out x in): y = W x + b; b may be None
    terms        one list of (c, K, V) for each head; tables shared by the heads (Shaw)
                 are [shared] * heads
    Head h owns the numbers h d to (h + 1) d of q, k, v and of the concatenation.
    Returns the output (I x w) and the list of the heads' weights (each I x I).
    """
    assert len(terms) == heads, "one list of terms for each head"
    x = _numbers(x)
    q = [linear(row, *projections["q_proj"]) for row in x]
    k = [linear(row, *projections["k_proj"]) for row in x]
    v = [linear(row, *projections["v_proj"]) for row in x]
    d = len(q[0]) // heads
    assert d * heads == len(q[0]), "the heads must divide the width"
    joined, weights = [[] for _ in x], []
    for h in range(heads):
        own = slice(h * d, (h + 1) * d)
        o, a = relation_aware_attention(
            [row[own] for row in q],
            [row[own] for row in k],
            [row[own] for row in v],
            terms[h],
            allowed,
        )
        for i in range(len(x)):
            joined[i] += _vector(o[i])
        weights.append(a)
    out = [linear(row, *projections["out_proj"]) for row in joined]
    return _stack(out), weights


def linear(x, weight, bias=None):
    """y = W x + b, one vector, W as nn.Linear has it: a row for each output."""
    weight = _numbers(weight)
    out = [_dot(row, x) for row in weight]
    return out if bias is None else _sum(out, _vector(bias))


# --- numbers -------------------------------------------------------------------------


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
