"""This slow reference is the tagger of Dufter et al. 2020, written from the paper's text.

Plain loops over Python numbers; nothing is vectorised and nothing of the package is used. One
sentence without padding and without dropout: T words at positions 0 … T-1.
"""

import math
from dataclasses import dataclass, field
from itertools import product


@dataclass
class Layer:
    """q, k, v: C x C, rows are outputs. The others belong to a mechanism, None where it is off."""

    q: list
    k: list
    v: list
    absolute: list | None = None  # H x t x t
    relative: list | None = None  # H x 2t
    spectrum: list | None = None  # H x 2t, of the symmetric relative positions
    temperatures: tuple | None = None  # of q, k and v, H each
    one: tuple | None = None  # H x t x t x 3 (filter, channel, place), and H x t
    two: tuple | None = None  # H x 3 x 3, and H


@dataclass
class Parameters:
    words: list  # a row for each word of the vocabulary
    characters: list
    convolutions: list  # of (filters x channels x places, filters)
    layers: list[Layer]
    heads: int
    output: tuple  # labels x 2C, and labels
    positions: str = "none"  # or added, or concatenated
    places: list = field(default_factory=list)  # t rows


def scores_of_tags(words: list[int], spellings: list[list[int]], p: Parameters) -> list:
    """Return the scores before the softmax: one row for each word."""
    embedded = [
        embedding(word, place, spelling, p)
        for place, (word, spelling) in enumerate(zip(words, spellings, strict=True))
    ]
    x = embedded
    for layer in p.layers:
        found = attention(x, layer, p.heads)
        x = [plus(row, change) for row, change in zip(x, found, strict=True)]
    weight, bias = p.output
    return [
        plus(matrix(weight, [*first, *last]), bias) for first, last in zip(embedded, x, strict=True)
    ]


# --- words ---------------------------------------------------------------------------


def embedding(word: int, place: int, spelling: list[int], p: Parameters) -> list:
    """Section 2.1: the word with its position, then what its characters say."""
    vector = list(p.words[word])
    if p.positions == "added":
        vector = plus(vector, p.places[place])
    if p.positions == "concatenated":
        vector = [*vector, *p.places[place]]
    return [*vector, *of_characters([p.characters[c] for c in spelling], p.convolutions)]


def of_characters(x: list, convolutions: list) -> list:
    """Apply convolutions of the same length with ReLU, then take the largest of each filter."""
    for weight, bias in convolutions:
        x = [
            [relu(convolved(x, i, weight[f]) + bias[f]) for f in range(len(bias))]
            for i in range(len(x))
        ]
    return [max(row[f] for row in x) for f in range(len(x[0]))]


def convolved(x: list, i: int, weight: list) -> float:
    """Return sum_c sum_u W_{c,u} x_{i+u,c}, u from -(k-1)/2 to (k-1)/2, x = 0 outside."""
    total = 0.0
    for c, places in enumerate(weight):
        for n, number in enumerate(places):
            step = i + n - (len(places) - 1) // 2
            if 0 <= step < len(x):
                total += number * x[step][c]
    return total


# --- attention -----------------------------------------------------------------------


def attention(x: list, layer: Layer, heads: int) -> list:
    """Return sigma(A) X W_v of each head, joined; A = X W_q (X W_k)^T / sqrt(d_h) (section 2.2)."""
    joined = [[] for _ in x]
    for h in range(heads):
        q, k, v = [
            projected(x, weight, h, heads, layer.temperatures and layer.temperatures[n][h])
            for n, weight in enumerate((layer.q, layer.k, layer.v))
        ]
        a = [softmax([score(q, k, layer, h, i, j) for j in range(len(x))]) for i in range(len(x))]
        if layer.one:
            a = convolved_1d(a, layer.one[0][h], layer.one[1][h])
        if layer.two:
            a = convolved_2d(a, layer.two[0][h], layer.two[1][h])
        for i, row in enumerate(a):
            for c in range(len(v[0])):
                joined[i].append(sum(row[j] * v[j][c] for j in range(len(x))))
    return joined


def projected(x: list, weight: list, h: int, heads: int, gamma: float | None) -> list:
    """Return head h of x W, times its temperature (section 2.4)."""
    d = len(weight) // heads
    gamma = 1.0 if gamma is None else gamma
    return [[gamma * n for n in matrix(weight[h * d : (h + 1) * d], row)] for row in x]


def score(q: list, k: list, layer: Layer, h: int, i: int, j: int) -> float:
    """Return A_ij + A^p_ij + a^r_{i-j+t} (section 2.3)."""
    found = dot(q[i], k[j]) / math.sqrt(len(q[i]))
    if layer.absolute:
        found += layer.absolute[h][i][j]
    if layer.relative:
        t = len(layer.relative[h]) // 2
        found += layer.relative[h][i - j + t]
    if layer.spectrum:
        found += wave(layer.spectrum[h], i - j)
    return found


def wave(spectrum: list, n: int) -> float:
    """Return 1/2t sum_m R_m cos(2 pi m n / 2t), alike for n and -n, as in the authors' program."""
    size = len(spectrum)
    return sum(r * math.cos(2 * math.pi * m * n / size) for m, r in enumerate(spectrum)) / size


def convolved_1d(a: list, weight: list, bias: list) -> list:
    """Section 2.5: a row of a is a step, its columns are channels, each with its filter."""
    size = range(len(a))
    changed = [[0.0 for _ in size] for _ in size]
    for i, out in product(size, size):
        total = bias[out]
        for u, channel in product((-1, 0, 1), size):
            if i + u in size:
                total += weight[out][channel][u + 1] * a[i + u][channel]
        changed[i][out] = relu(total)
    return changed


def convolved_2d(a: list, weight: list, bias: float) -> list:
    """Apply one 3 x 3 filter, zeros outside, and ReLU (section 2.5)."""
    size = range(len(a))
    changed = [[0.0 for _ in size] for _ in size]
    for i, j in product(size, size):
        total = bias
        for u, w in product((-1, 0, 1), (-1, 0, 1)):
            if i + u in size and j + w in size:
                total += weight[u + 1][w + 1] * a[i + u][j + w]
        changed[i][j] = relu(total)
    return changed


# --- numbers -------------------------------------------------------------------------


def matrix(weight: list, vector: list) -> list:
    return [dot(row, vector) for row in weight]


def dot(a: list, b: list) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def plus(a: list, b: list) -> list:
    return [x + y for x, y in zip(a, b, strict=True)]


def relu(number: float) -> float:
    return max(number, 0.0)


def softmax(scores: list) -> list:
    largest = max(scores)
    exponentials = [math.exp(s - largest) for s in scores]
    return [e / sum(exponentials) for e in exponentials]
