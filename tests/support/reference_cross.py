"""Slow references for mechanisms in cross-attention are written as those of self-attention are.

Plain loops over float64 scalars, as in `reference_mechanisms`; nothing of the package is used. One
pair of sentences without padding: I target pieces (queries) and J source pieces (keys), both
counted from 0; H heads of width d. The diagonal of target piece i is

    c_i = min(floor(r i + 1/2), J - 1)

A parameter with a row for each head has one for each of the H heads, used or not.
"""

import math
from dataclasses import KW_ONLY, dataclass

import torch

from support.reference import (
    _dot,
    _numbers,
    _scalar,
    _softmax,
    _stack,
    _vector,
    depths,
    linear,
    word_of_pieces,
)


def diagonal(i, count, ratio):
    """Return the source piece, of `count`, on which the diagonal lies for target piece i."""
    return min(math.floor(ratio * i + 0.5), count - 1)


@dataclass(eq=False)
class Part:
    """What a mechanism may say; this one says nothing. q is q[head][i], J the number of keys."""

    _: KW_ONLY
    heads: tuple[int, ...] | None = None  # the heads that it speaks for; None: all

    def __init_subclass__(cls):
        dataclass(eq=False)(cls)

    def factors(self, h):  # what queries, keys and values are multiplied by
        return 1.0, 1.0, 1.0

    def sources(self, h, count):  # the heads, of `count`, whose keys head h attends to
        return [h]

    def allowed(self, q, h, i, j, J):  # may query i attend to key j?
        return True

    def added(self, q, h, i, j, J):  # the bias of the score
        return 0.0

    def times(self, q, h, i, j, J):  # the factor of the weight
        return 1.0


def cross_attention(y, x, projections, heads, parts=()):
    """Attend from the target y, I x C, to the source x, J x S, changed by the parts.

    a_ij = softmax_j(q_i . k_j / sqrt(d)),  o_i = sum_j a_ij v_j,  z_i = W [o_i^0; o_i^1 …] + b
    projections: {'q_proj', 'k_proj', 'v_proj', 'out_proj'} -> (W, b)
    Returns z (I x C) and the weights that the values get (H x I x J).
    """
    q = _split(y, projections["q_proj"], heads)
    k, v = (_split(x, projections[name], heads) for name in ("k_proj", "v_proj"))
    own = [[part for part in parts if part.heads is None or h in part.heads] for h in range(heads)]
    for h in range(heads):
        for part in own[h]:
            for vectors, factor in zip((q, k, v), part.factors(h), strict=True):
                vectors[h] = [[_scalar(factor) * number for number in row] for row in vectors[h]]
    count, J, d = len(q[0]), len(k[0]), len(q[0][0])
    joined, weights = [[] for _ in range(count)], []
    for h in range(heads):
        sources = max([[h]] + [part.sources(h, heads) for part in own[h]], key=len)
        table = []
        for i in range(count):
            scores = {}
            for j in range(J):
                if not all(part.allowed(q, h, i, j, J) for part in own[h]):
                    continue
                for source in sources:
                    score = _dot(q[h][i], k[source][j]) / math.sqrt(d)
                    for part in own[h]:
                        score = score + part.added(q, h, i, j, J)
                    scores[source, j] = score
            row, out = _vector([0.0] * J), _vector([0.0] * d)
            for (source, j), weight in _softmax(scores).items():
                for part in own[h]:
                    weight = weight * part.times(q, h, i, j, J)
                row[j] = row[j] + weight
                out = [o + weight * number for o, number in zip(out, v[source][j], strict=True)]
            table.append(row)
            joined[i] = joined[i] + out
        weights.append(_stack(table))
    z = [linear(row, *projections["out_proj"]) for row in joined]
    return _stack(z), torch.stack(weights)


def _split(x, projection, heads):
    rows = [linear(row, *projection) for row in _numbers(x)]
    d = len(rows[0]) // heads
    return [[row[h * d : (h + 1) * d] for row in rows] for h in range(heads)]


class Window(Part):
    """local-m of Luong et al. 2015: keys |j - c_i| <= M/2, size = M + 1; across as in Yang 2019."""

    size: int
    across: int = 1
    ratio: float = 1.0

    def sources(self, h, count):
        return [other for other in range(count) if abs(other - h) <= self.across // 2]

    def allowed(self, q, h, i, j, J):
        return abs(j - diagonal(i, J, self.ratio)) <= self.size // 2


class Gaussian(Part):
    """The score becomes s_ij - (j - c_i)² / (2 sigma_h²).  sigma: H"""

    sigma: torch.Tensor
    ratio: float = 1.0

    def added(self, q, h, i, j, J):
        return -((j - diagonal(i, J, self.ratio)) ** 2) / (2 * _scalar(self.sigma[h]) ** 2)


class LocalHard(Part):
    """local-p of Luong et al. 2015, Eq. 9 and 10: p_i = J sigmoid(v . tanh(W q_i)), s = D/2."""

    W: torch.Tensor
    v: torch.Tensor
    reach: float

    def centre(self, q, h, i, J):
        hidden = [torch.tanh(number) for number in linear(q[h][i], self.W[h])]
        return J * torch.sigmoid(_dot(self.v[h], hidden))

    def allowed(self, q, h, i, j, J):
        return bool(abs(j - self.centre(q, h, i, J)) <= self.reach)

    def times(self, q, h, i, j, J):
        s = self.reach / 2
        return torch.exp(-((j - self.centre(q, h, i, J)) ** 2) / (2 * s**2))


class LocalSoft(Part):
    """Yang et al. 2018: s_ij - (j - P_i)² / (2 (D_i/2)²), both J sigmoid(U . tanh(W q_i))."""

    W: torch.Tensor
    up: torch.Tensor
    ud: torch.Tensor

    def added(self, q, h, i, j, J):
        d = len(q[h][i])
        joined = [number for head in q for number in head[i]]
        hidden = [torch.tanh(number) for number in linear(joined, self.W)][h * d : (h + 1) * d]
        centre = J * torch.sigmoid(_dot(self.up[h], hidden))
        width = J * torch.sigmoid(_dot(self.ud[h], hidden))
        return -((j - centre) ** 2) / (2 * (width / 2) ** 2)


class Temperature(Part):
    """Queries, keys and values of head h are multiplied by three numbers. Each is H."""

    of_queries: torch.Tensor
    of_keys: torch.Tensor
    of_values: torch.Tensor

    def factors(self, h):
        return self.of_queries[h], self.of_keys[h], self.of_values[h]


class TreeDepthBias(Part):
    """The score becomes s_ij + w_h,depth(j), deeper words as the deepest row; the end of sentence,
    which is piece J - 1, has the last row.  parents, pieces: as of `reference`;  w: H x max + 2
    """

    parents: list
    pieces: list
    w: torch.Tensor

    def added(self, q, h, i, j, J):
        row, deepest = self.w[h], len(self.w[h]) - 2
        if j == J - 1:
            return _scalar(row[deepest + 1])
        word = word_of_pieces(self.pieces)[j]
        return _scalar(row[min(depths(self.parents)[word], deepest)])
