"""Slow references for the attention mechanisms are written in the style of `reference`.

Plain loops over float64 scalars; nothing is vectorised, nothing of the package is used, and
what is computed from tensors stays differentiable. One sentence without padding: I pieces at
positions 0 … I-1; H heads, counted from 0, of width d; C = H d. A parameter with a row for
each head has one for each of the H heads, used or not. In cross-attention keys and values are those
of another sentence of J pieces; a query then stands on the diagonal, at c_i.

A new mechanism is a subclass of `Part` with its fields and the methods it needs.
"""

import math
from dataclasses import KW_ONLY, dataclass
from itertools import product

import torch

from support.reference import (
    _dot,
    _numbers,
    _scalar,
    _softmax,
    _stack,
    _sum,
    _vector,
    linear,
    relations,
    relative_index,
    tree_index,
    word_of_pieces,
)

# --- the pipeline --------------------------------------------------------------------


@dataclass(eq=False)
class Part:
    """What a mechanism may say; this one says nothing. q is q[head][piece], of all heads."""

    _: KW_ONLY
    heads: tuple[int, ...] | None = None  # the heads that it speaks for; None: all
    mixes_keys = False  # does change_weights look at several keys at once?
    depths = None  # the brackets open after each piece, after each query across, where known
    all_keys = None  # k[head][piece], which multi_head sets

    def __init_subclass__(cls):
        dataclass(eq=False)(cls)

    def transform(self, h, i, q, k, v):  # the vectors of piece i of head h: q, then k and v
        return q, k, v

    def sources(self, h, count):  # the heads, of `count`, whose keys head h attends to
        return [h]

    def allowed(self, q, h, i, count):  # for each of so many keys: may query i attend to it?
        return [True for _ in range(count)]

    def added(self, q, h, i, count):  # for each key j: the bias of its score
        return [0.0 for _ in range(count)]

    def change(self, score, h, i, j):  # the score of (i, j) instead of this one
        return score

    def change_weights(self, a, q, h):  # the weights, I x J, instead of a
        return a

    def value(self, v, h, i, j):  # the value for query i instead of v_j
        return v


def multi_head(x, projections, heads, parts=(), memory=None):
    """Attend as in Vaswani et al. 2017, section 3.2, changed by the parts in the order of the list.

    The queries are those of x, keys and values those of `memory` or of x.

    a_ij = softmax_j(q_i . k_j / sqrt(d)),  o_i = sum_j a_ij v_j,  y_i = W [o_i^0; o_i^1 …] + b

    projections  {'q_proj', 'k_proj', 'v_proj', 'out_proj'} -> (W, b), W as nn.Linear has it,
                 b may be None; without 'out_proj' the heads are only joined
    Returns y (I x C) and the weights that the values get (H x I x J); where a head sees keys
    of several heads, the weight of (i, j) is the sum over the copies of key j.
    """
    memory = x if memory is None else memory
    q = _projected(x, projections["q_proj"], heads)
    k, v = (_projected(memory, projections[name], heads) for name in ("k_proj", "v_proj"))
    own = [[part for part in parts if part.heads is None or h in part.heads] for h in range(heads)]
    for h in range(heads):
        for part in own[h]:
            for i in range(len(x)):
                q[h][i] = part.transform(h, i, q[h][i], q[h][i], q[h][i])[0]
            for j in range(len(memory)):
                _, k[h][j], v[h][j] = part.transform(h, j, k[h][j], k[h][j], v[h][j])
    for part in parts:
        part.all_keys = k
    joined, weights = [[] for _ in x], []
    for h in range(heads):
        o, a = _one_head(q, k, v, h, own[h])
        joined = [row + part for row, part in zip(joined, o, strict=True)]
        weights.append(_stack(a))
    if "out_proj" in projections:
        joined = [linear(row, *projections["out_proj"]) for row in joined]
    return _stack(joined), torch.stack(weights)


def _projected(x, projection, heads):
    rows = [linear(row, *projection) for row in _numbers(x)]
    d = len(rows[0]) // heads
    assert d * heads == len(rows[0]), "the heads must divide the width"
    return [[row[h * d : (h + 1) * d] for row in rows] for h in range(heads)]


def _one_head(q, k, v, h, parts):
    """Return outputs and weights of head h. What holds for (i, j) holds for each copy of key j."""
    pieces, keys, d = range(len(q[h])), range(len(k[h])), len(q[h][0])
    sources = max([[h]] + [part.sources(h, len(q)) for part in parts], key=len)
    allowed, a = [], {source: [] for source in sources}
    for i in pieces:
        opinions = [part.allowed(q, h, i, len(keys)) for part in parts]
        allowed.append([all(opinion[j] for opinion in opinions) for j in keys])
        biases = [part.added(q, h, i, len(keys)) for part in parts]
        scores = {}
        for source, j in product(sources, keys):
            if allowed[i][j]:
                score = _dot(q[h][i], k[source][j]) / math.sqrt(d)
                for part, bias in zip(parts, biases, strict=True):
                    score = part.change(score + bias[j], h, i, j)
                scores[source, j] = score
        soft = _softmax(scores)
        for source in sources:
            a[source].append([soft.get((source, j), _scalar(0.0)) for j in keys])
    for part in parts:
        assert len(sources) == 1 or not part.mixes_keys, "which copies of a key to mix is open"
        for source in sources:
            changed = part.change_weights(a[source], q, h)
            a[source] = [
                [w if ok else _scalar(0.0) for w, ok in zip(*row, strict=True)]
                for row in zip(changed, allowed, strict=True)
            ]
    outputs = [_vector([0.0] * d) for _ in pieces]
    weights = [_vector([0.0] * len(keys)) for _ in pieces]
    for i, j, source in product(pieces, keys, sources):
        if allowed[i][j]:
            value = v[source][j]
            for part in parts:
                value = part.value(value, h, i, j)
            outputs[i] = _sum(outputs[i], [a[source][i][j] * number for number in value])
            weights[i][j] = weights[i][j] + a[source][i][j]
    return outputs, weights


# --- convolutional self-attention networks and what they compare with ----------------


def diagonal(i, count, ratio):
    """Return c_i, the piece of J on which the diagonal lies: min(floor(r i + 1/2), J - 1).

    In a sentence with itself and r = 1 this is i.
    """
    return min(math.floor(ratio * i + 0.5), count - 1)


class Window(Part):
    """Keys must be near (Yang et al. 2019, "Convolutional Self-Attention Networks", Eq. 4 to 9).

    K^h = {k_j^h : |c_i - j| <= M/2};  across: K^(h-N/2) … K^(h+N/2), in one softmax
    size = M + 1, across = N + 1; heads beyond the edge do not exist. Ours: a neighbour need
    not be one of `heads`. In cross-attention it is local-m of Luong et al. 2015.
    """

    size: int
    across: int = 1
    ratio: float = 1.0

    def sources(self, h, count):
        return [other for other in range(count) if abs(other - h) <= self.across // 2]

    def allowed(self, q, h, i, count):
        centre = diagonal(i, count, self.ratio)
        return [abs(centre - j) <= self.size // 2 for j in range(count)]


class Directional(Part):
    """The first half of the heads see keys j < i, the others j > i (Shen et al. 2018a, DiSAN).

    The first half: h < H // 2 of all heads. The diagonal, unless strict, is ours.
    """

    strict: bool = False

    def allowed(self, q, h, i, count):
        sign = 1 if h < len(q) // 2 else -1
        return [sign * (i - j) > 0 or (i == j and not self.strict) for j in range(count)]


class Gaussian(Part):
    """The score becomes s_ij - (c_i - j)² / (2 sigma_h²) (Sperber et al. 2018).  sigma: H"""

    sigma: torch.Tensor
    ratio: float = 1.0

    def added(self, q, h, i, count):
        centre = diagonal(i, count, self.ratio)
        return [-((centre - j) ** 2) / (2 * _scalar(self.sigma[h]) ** 2) for j in range(count)]


class LocalHard(Part):
    """This is local-p of Luong et al. 2015, Eq. 9 and 10, with q_i for their h_t.

    p_i = J sigmoid(v . tanh(W q_i)),  keys |j - p_i| <= D,  a_ij exp(-(j - p_i)² / (2 s²))
    W: H x d x d, v: H x d, reach = D, s = D/2. The softmax runs over the keys that are left.
    """

    W: torch.Tensor
    v: torch.Tensor
    reach: float

    def centre(self, q, h, i, count):
        hidden = [torch.tanh(number) for number in linear(q[h][i], self.W[h])]
        return count * torch.sigmoid(_dot(self.v[h], hidden))

    def allowed(self, q, h, i, count):
        p = self.centre(q, h, i, count)
        return [bool(abs(j - p) <= self.reach) for j in range(count)]

    def change_weights(self, a, q, h):
        count, s, changed = len(a[0]), self.reach / 2, []
        for i, row in enumerate(a):
            p = self.centre(q, h, i, count)
            bells = [torch.exp(-((j - p) ** 2) / (2 * s**2)) for j in range(count)]
            changed.append([weight * bell for weight, bell in zip(row, bells, strict=True)])
        return changed


class LocalSoft(Part):
    """The score becomes s_ij + G_ij (Yang et al. 2018, "Modeling Localness for Self-Attention
    Networks").

    G_ij = -(j - P_i)² / (2 (D_i/2)²),  P_i = J sigmoid(U_p . tanh(W q_i)),  D_i likewise, U_d
    W: C x C, q_i there of all heads joined; up, ud: H x d, on head h's part of the tanh
    """

    W: torch.Tensor
    up: torch.Tensor
    ud: torch.Tensor

    def added(self, q, h, i, count):
        d = len(q[h][i])
        joined = [number for head in q for number in head[i]]
        hidden = [torch.tanh(number) for number in linear(joined, self.W)][h * d : (h + 1) * d]
        centre = count * torch.sigmoid(_dot(self.up[h], hidden))
        width = count * torch.sigmoid(_dot(self.ud[h], hidden))
        return [-((j - centre) ** 2) / (2 * (width / 2) ** 2) for j in range(count)]


class SameBlock(Part):
    """The first attention of `block` does not leave its block (Shen et al. 2018b, Bi-BloSAN)."""

    size: int

    def allowed(self, q, h, i, count):
        return [i // self.size == j // self.size for j in range(count)]


def block(x, attend, size, parameters, heads):
    """Compute Bi-BloSAN (Shen et al. 2018b), with multi-head attention for their feature-wise one.

    h = attention in blocks of `size`,  v = sum_block softmax(W2 ReLU(W1 h + b1) + b2) * h
    o = attention over all v,  e = G * o + (1 - G) * v,   G = sigmoid(W3 o + W4 v + b3)
    y = F * ReLU(W5 [x; h; e] + b5) + (1 - F) * x,        F = sigmoid(W6 [x; h; e] + b6)
    The softmax of each feature runs over the pieces of the block; * is by features.

    attend      (x, parts) -> h, say lambda x, parts: multi_head(x, own, heads, parts)[0]
    parameters  w1, w2: (W, b);  w3, w4, b3, w5, b5, w6, b6: tensors;  projections: those of
                the attention over blocks, which has `heads` heads, as multi_head takes them
    """
    x, p = _numbers(x), parameters
    h = _numbers(attend(_stack(x), [SameBlock(size)]))
    inside = [range(start, min(start + size, len(x))) for start in range(0, len(x), size)]
    v = []
    for pieces in inside:
        logits = {i: linear(_relu(linear(h[i], *p["w1"])), *p["w2"]) for i in pieces}
        v.append([])
        for f in range(len(x[0])):
            soft = _softmax({i: logits[i][f] for i in pieces})
            v[-1].append(sum(soft[i] * h[i][f] for i in pieces))
    o = _numbers(multi_head(_stack(v), p["projections"], heads)[0])
    y = []
    for i in range(len(x)):
        o_b, v_b = o[i // size], v[i // size]
        gate = _sum(linear(o_b, p["w3"]), linear(v_b, p["w4"], p["b3"]))
        both = [*x[i], *h[i], *_gated(gate, o_b, v_b)]  # [x; h; e], 3C numbers
        fused = _relu(linear(both, p["w5"], p["b5"]))
        y.append(_gated(linear(both, p["w6"], p["b6"]), fused, x[i]))
    return _stack(y)


def _gated(logits, one, other):
    gates = [torch.sigmoid(number) for number in logits]
    return [g * a + (1 - g) * b for g, a, b in zip(gates, one, other, strict=True)]


def _relu(vector):
    return [torch.relu(number) for number in vector]


def cnn(x, layers):
    """Return x + ReLU(conv(layernorm(x))), layer by layer (Yu et al. 2018, QANet, section 2.2).

    layernorm(x) = w (x - mean) / sqrt(variance + 1e-5) + b over the features of a piece
    conv: y_i,c = b_c + sum_u W_c,u x_{i+u,c}, then W y_i + b (depth-wise separable), or
          y_i,c = b_c + sum_{u,e} W_c,e,u x_{i+u,e} (plain);  u centred on 0, x = 0 outside
    layers  dicts: norm (w, b); depthwise (C x kernel, C) and pointwise (C x C, C), or
            plain (C x C x kernel, C)
    """
    x = _numbers(x)
    for layer in layers:
        normal = [_layer_norm(row, *layer["norm"]) for row in x]
        if "plain" in layer:
            out = _convolution(normal, *layer["plain"])
        else:
            weight, bias = layer["depthwise"]
            channels = [[[row[c]] for row in normal] for c in range(len(weight))]
            deep = [_convolution(channels[c], [[w]], [bias[c]]) for c, w in enumerate(weight)]
            joined = [[channel[i][0] for channel in deep] for i in range(len(x))]
            out = [linear(row, *layer["pointwise"]) for row in joined]
        x = [_sum(row, _relu(change)) for row, change in zip(x, out, strict=True)]
    return _stack(x)


def tree_gcn(x, parents, pieces, labels, layers):
    """Return x_v + ReLU(sum_u g_uv (W_d h_u + b_l)), layer by layer (Bastings et al. 2017).

    u: the parent of the word of v, each of its children, and v itself. h_u: the mean of the pieces
    of word u, or x_v for v itself. g_uv = sigmoid(w_d . h_u + c_l). The label l of an edge is that
    of the word that is the child. The end of sentence, the last of x, has only itself.
    parents: from 1, 0 = root; labels: one for each word.
    layers  dicts: loop, from_parent, from_children -> (W, b, w, c), with a b and a c for each label
    """
    x = _numbers(x)
    words = [*word_of_pieces(pieces), None]
    for layer in layers:
        means = []
        for word in range(len(parents)):
            own = [x[i] for i in range(len(x)) if words[i] == word]
            means.append([sum(numbers) / len(own) for numbers in zip(*own, strict=True)])
        out = []
        for i, word in enumerate(words):
            total = _edge(x[i], layer["loop"], 0)
            if word is not None and parents[word]:
                total = _sum(
                    total, _edge(means[parents[word] - 1], layer["from_parent"], labels[word])
                )
            for child in range(len(parents)):
                if word is not None and parents[child] == word + 1:
                    total = _sum(total, _edge(means[child], layer["from_children"], labels[child]))
            out.append(total)
        x = [_sum(row, _relu(change)) for row, change in zip(x, out, strict=True)]
    return _stack(x)


def _edge(h, parameters, label):
    """Return g (W h + b_l) with g = sigmoid(w . h + c_l)."""
    matrix, biases, gate, gate_biases = parameters
    g = 1 / (1 + torch.exp(-(_dot(h, _vector(gate)) + _scalar(gate_biases[label]))))
    return [g * number for number in linear(h, matrix, biases[label])]


def _layer_norm(row, weight, bias):
    mean = sum(row) / len(row)
    variance = sum((number - mean) ** 2 for number in row) / len(row)
    normal = [(number - mean) / torch.sqrt(variance + 1e-5) for number in row]
    return _sum([w * number for w, number in zip(_vector(weight), normal, strict=True)], bias)


def _convolution(x, weight, bias):
    """As many steps as x has. weight: out x in x kernel, u = 0 at (kernel - 1) // 2."""
    y = [_vector(bias) for _ in x]
    for out, channels in enumerate(weight):
        for inner, kernel in enumerate(channels):
            for i, place in product(range(len(x)), range(len(kernel))):
                step = i + place - (len(kernel) - 1) // 2
                if 0 <= step < len(x):
                    y[i][out] = y[i][out] + _scalar(kernel[place]) * x[step][inner]
    return y


# --- direct positions, temperature, convoluted attention -----------------------------


class DirectAbsolute(Part):
    """The score becomes s_ij + A^p_ij (Dufter et al. 2020, section 2.3).  table: H x t x t"""

    table: torch.Tensor

    def added(self, q, h, i, count):
        return [_scalar(self.table[h][i][j]) for j in range(count)]


class DirectRelative(Part):
    """The score becomes s_ij + a^r_{i-j+t} (Dufter et al. 2020, section 2.3).  table: H x 2t

    Ours, for longer sentences: i - j is clipped to -t … t-1.
    """

    table: torch.Tensor

    def added(self, q, h, i, count):
        t = len(self.table[h]) // 2
        return [_scalar(self.table[h][max(-t, min(t - 1, i - j)) + t]) for j in range(count)]


class DirectRelativeSymmetric(Part):
    """The score becomes s_ij + c_|i-j|, with a spectrum R of 2t numbers (program of Dufter et al.
    2020).

    c_n = 1/2t sum_m R_m cos(2 pi m n / 2t), the real part of the inverse DFT.  table: H x 2t
    Ours, for longer sentences: |i - j| is at most t.
    """

    table: torch.Tensor

    def added(self, q, h, i, count):
        size = len(self.table[h])
        circle = [2 * math.pi * m / size for m in range(size)]
        distances = [min(abs(i - j), size // 2) for j in range(count)]
        waves = [[math.cos(angle * n) for angle in circle] for n in distances]
        return [_dot(_vector(self.table[h]), wave) / size for wave in waves]


class Temperature(Part):
    """The vectors become gamma_q q_i, gamma_k k_i, gamma_v v_i (Dufter et al. 2020, section 2.4).

    q, k, v: H
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    def transform(self, h, i, q, k, v):
        pairs = [(self.q[h], q), (self.k[h], k), (self.v[h], v)]
        return [[_scalar(gamma) * number for number in vector] for gamma, vector in pairs]


class Convolved1d(Part):
    """Rows are steps, columns channels, and there are t filters (Dufter et al. 2020, section 2.5).

    A'_ij' = ReLU(b_j' + sum_{u = -1, 0, 1} sum_j W_j',j,u a_{i+u,j}),  a = 0 outside
    weight: H x t x t x 3, bias: H x t; a shorter sentence takes the first I of both t.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    mixes_keys = True

    def change_weights(self, a, q, h):
        size = len(a)
        assert size <= len(self.bias[h]), "the sentence is longer than t"
        return [
            _relu(row) for row in _convolution(a, self.weight[h][:size, :size], self.bias[h][:size])
        ]


class Convolved2d(Part):
    """Each head has one filter, in two dimensions (Dufter et al. 2020, section 2.5).

    A'_ij = ReLU(b + sum_{u, w = -1, 0, 1} W_u,w a_{i+u,j+w}),  a = 0 outside
    weight: H x 3 x 3, bias: H
    """

    weight: torch.Tensor
    bias: torch.Tensor
    mixes_keys = True

    def change_weights(self, a, q, h):
        pieces = range(len(a))
        changed = [[_scalar(self.bias[h]) for _ in pieces] for _ in pieces]
        for i, j, u, w in product(pieces, pieces, (-1, 0, 1), (-1, 0, 1)):
            if i + u in pieces and j + w in pieces:
                term = _scalar(self.weight[h][u + 1][w + 1]) * a[i + u][j + w]
                changed[i][j] = changed[i][j] + term
        return [_relu(row) for row in changed]


# --- today's positions ---------------------------------------------------------------


class Alibi(Part):
    """The score becomes s_ij - m_h |i - j| (Press et al. 2022).  before, after: H slopes m_h

    A key after the query takes the slope of `after`, and counts `offset` pieces further. sides:
    for each head -1 if it sees the keys up to the query, 1 if it sees those from it on, else 0.
    """

    before: torch.Tensor
    after: torch.Tensor
    offset: float = 0.0
    sides: tuple[int, ...] = ()

    def allowed(self, q, h, i, count):
        side = self.sides[h] if self.sides else 0
        return [side * (j - i) >= 0 for j in range(count)]

    def added(self, q, h, i, count):
        biases = []
        for j in range(count):
            if j > i:
                biases.append(-_scalar(self.after[h]) * (j - i + self.offset))
            else:
                biases.append(-_scalar(self.before[h]) * (i - j))
        return biases


def alibi_slopes(heads):
    """Return 2^(-8h/H) for h = 1 … H (Press et al. 2022, section 3).

    If H is no power of two, these are the slopes of the next lower power P, and after them the
    first, third, fifth … slope of 2P (the authors' program).
    """
    power = 1
    while 2 * power <= heads:
        power *= 2
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    double = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return slopes + double[0::2][: heads - power]


class T5Bias(Part):
    """The score becomes s_ij + b_h[bucket(j - i)] (Raffel et al. 2020).  table: H x buckets

    The second half of the buckets is for keys after the query. Of the n buckets of a side the
    first n/2 have one distance each: 0, 1, 2 … The rest end where the distance has grown from n/2
    to `longest` in equal factors; the last one has all that is further. Unless `scaled`, scores
    are not divided by sqrt(d).
    """

    table: torch.Tensor
    longest: int
    scaled: bool = True

    def bucket(self, step):
        side = len(self.table[0]) // 2
        exact, distance = side // 2, abs(step)
        place = min(distance, exact)
        for b in range(1, side - exact):  # distance / exact >= (longest / exact)^(b / rest)
            if distance ** (side - exact) * exact**b >= self.longest**b * exact ** (side - exact):
                place = exact + b
        return place + (side if step > 0 else 0)

    def transform(self, h, i, q, k, v):
        return (q if self.scaled else [math.sqrt(len(q)) * number for number in q]), k, v

    def added(self, q, h, i, count):
        return [_scalar(self.table[h][self.bucket(j - i)]) for j in range(count)]


class Rope(Part):
    """The m-th pair of numbers of q_i and k_i is turned by the angle i base^(-2m/d) (Su et al.
    2021).

    A pair is (2m, 2m + 1), as published, or (m, m + d/2) with `halves`.
    """

    base: float
    halves: bool = False

    def turned(self, vector, i):
        d, out = len(vector), list(vector)
        for m in range(d // 2):
            one, two = (m, m + d // 2) if self.halves else (2 * m, 2 * m + 1)
            angle = i * self.base ** (-2 * m / d)
            out[one] = vector[one] * math.cos(angle) - vector[two] * math.sin(angle)
            out[two] = vector[one] * math.sin(angle) + vector[two] * math.cos(angle)
        return out

    def transform(self, h, i, q, k, v):
        return self.turned(q, i), self.turned(k, i), v


# --- structural positions ------------------------------------------------------------


class Relative(Part):
    """Here s_ij is q_i . (k_j + K_c) / sqrt(d), the value v_j + V_c (Shaw et al. 2018, Eq. 3, 4).

    c = clip(j - i) to -r … r.  keys, values: H x (2r + 1) x d
    """

    keys: torch.Tensor
    values: torch.Tensor
    r: int

    def row(self, i, j):
        return relative_index(i, j, self.r)

    def added(self, q, h, i, count):
        keys = [self.keys[h][self.row(i, j)] for j in range(count)]
        return [_dot(q[h][i], _vector(key)) / math.sqrt(len(key)) for key in keys]

    def value(self, v, h, i, j):
        return _sum(v, _vector(self.values[h][self.row(i, j)]))


class TreeRelative(Relative):
    """This is Relative with c = clip(tree relation), by rules 1 and 2 (Eq. 6) of Wang et al. 2019.

    parents: from 1, 0 = root; pieces: their number for each word; end of sentence follows.
    """

    parents: list[int]
    pieces: list[int]

    def row(self, i, j):
        return tree_index(relations(self.parents, self.pieces)[i][j], self.r)


class ParentScaled(Part):
    """The score becomes s_ij (2 pi)^(-1/2) exp(-(j - m_i)² / 2) (Bugliarello and Okazaki 2020).

    m_i: the mean position of the pieces of the parent of i's word; where that is the root,
    of its own word's; of end of sentence, its own. parents, pieces: as TreeRelative.
    """

    parents: list[int]
    pieces: list[int]

    def mean(self, i):
        words = word_of_pieces(self.pieces)
        if i == len(words):
            return i
        parent = self.parents[words[i]]
        target = words[i] if parent == 0 else parent - 1
        places = [j for j, word in enumerate(words) if word == target]
        return sum(places) / len(places)

    def change(self, score, h, i, j):
        return score * math.exp(-((j - self.mean(i)) ** 2) / 2) / math.sqrt(2 * math.pi)


class Disentangled(Part):
    """Content and positions attend to each other (He et al. 2021, DeBERTa, Eq. 4).

    (q_i·k_j + q_i·K[delta(i,j)] + k_j·Q[delta(j,i)]) / sqrt(terms · d),  delta(i,j) = i - j + k,
    between 0 and 2k - 1.  keys (K) and queries (Q): H x 2k x d, or None where the term is left out;
    `terms` counts those that are there, with the first one. The authors' program has Q[delta(i,j)].
    """

    keys: torch.Tensor | None
    queries: torch.Tensor | None
    k: int
    program: bool = False

    @property
    def terms(self):
        return 1 + (self.keys is not None) + (self.queries is not None)

    def delta(self, i, j):
        return max(0, min(2 * self.k - 1, i - j + self.k))

    def transform(self, h, i, q, k, v):
        return [number / math.sqrt(self.terms) for number in q], k, v

    def added(self, q, h, i, count):
        biases = []
        for j in range(count):
            total, root = _scalar(0.0), math.sqrt(len(q[h][i]))
            if self.keys is not None:  # q was divided by the square root of the terms
                total = total + _dot(q[h][i], _vector(self.keys[h][self.delta(i, j)])) / root
            if self.queries is not None:
                row = self.delta(i, j) if self.program else self.delta(j, i)
                to_query = _dot(self.all_keys[h][j], _vector(self.queries[h][row]))
                total = total + to_query / (root * math.sqrt(self.terms))
            biases.append(total)
        return biases


# --- more from trees -----------------------------------------------------------------


def path_up(parents, word):
    """Return the word, its parent, and so on up to the root; words count from 0."""
    path = [word]
    while parents[path[-1]]:
        path.append(parents[path[-1]] - 1)
    return path


def edges_between(parents, one, other):
    """Return the number of edges on the path between two words of a tree."""
    up, across = path_up(parents, one), path_up(parents, other)
    common = next(word for word in up if word in across)
    return up.index(common) + across.index(common)


class OfWords(Part):
    """What a tree says of the words of two pieces.  parents: from 1, 0 = root; pieces: their number
    for each word; the end of sentence follows, and belongs to no word.
    """

    parents: list[int]
    pieces: list[int]

    def words(self):
        return word_of_pieces(self.pieces)

    def edges(self, i, j):
        """Return the edges between the words of two pieces; None if one is the end."""
        words = self.words()
        if max(i, j) >= len(words):
            return None
        return edges_between(self.parents, words[i], words[j])


class TreeWindow(OfWords):
    """Keys must be at most k edges away: `up` among the ancestors, `down` among the descendants, or
    anywhere. The end of sentence sees all and is seen by all.
    """

    hops: int
    direction: str = "both"

    def allowed(self, q, h, i, count):
        return [self.sees(i, j) for j in range(count)]

    def sees(self, i, j):
        edges = self.edges(i, j)
        if edges is None:
            return True
        words = self.words()
        above = words[j] in path_up(self.parents, words[i])
        below = words[i] in path_up(self.parents, words[j])
        ways = {"both": True, "up": above, "down": below}
        return edges <= self.hops and ways[self.direction]


class TreeDistanceBias(OfWords):
    """The score becomes s_ij + b_h[min(t_ij, r)], t_ij edges apart.  table: H x (r + 2)

    The last number is for pairs of a word and the end of sentence.
    """

    table: torch.Tensor

    def added(self, q, h, i, count):
        return [_scalar(self.table[h][self.row(i, j)]) for j in range(count)]

    def row(self, i, j):
        r, edges = len(self.table[0]) - 2, self.edges(i, j)
        if edges is None:
            return 0 if i == j else r + 1
        return min(edges, r)


class TreeDistanceGaussian(OfWords):
    """The score becomes s_ij - t_ij² / (2 sigma_h²), but for the end of sentence.  sigma: H"""

    sigma: torch.Tensor

    def added(self, q, h, i, count):
        biases = []
        for j in range(count):
            edges = self.edges(i, j) or 0
            biases.append(-(edges**2) / (2 * _scalar(self.sigma[h]) ** 2))
        return biases


class TreeDepthRelative(Relative):
    """This is Relative with c = clip(depth(j) - depth(i)) (Omote et al. 2019).

    The end of sentence is one deeper than the deepest word. parents, pieces: as TreeRelative.
    """

    parents: list[int]
    pieces: list[int]

    def row(self, i, j):
        words = word_of_pieces(self.pieces)
        depths = [len(path_up(self.parents, word)) - 1 for word in words]
        depths.append(max(depths, default=-1) + 1)
        return max(-self.r, min(self.r, depths[j] - depths[i])) + self.r


class TreeLabels(Relative):
    """This is Relative with c = what holds between the words (Wang et al. 2020, RAT-SQL).

    0: nothing, or the end of sentence; 1: it is the same word; then come the r labels of the word
    of i if its parent is that of j, and then those of the word of j if its parent is that of i.
    parents, pieces: as TreeRelative; labels: one for each word, from 0 to r - 1.
    """

    parents: list[int]
    pieces: list[int]
    labels: list[int]

    def row(self, i, j):
        words = word_of_pieces(self.pieces)
        if max(i, j) >= len(words):
            return 0
        one, other = words[i], words[j]
        if one == other:
            return 1
        if self.parents[one] == other + 1:
            return 2 + self.labels[one]
        if self.parents[other] == one + 1:
            return 2 + self.r + self.labels[other]
        return 0


class Biaffine(Part):
    """The score becomes q_i (I + U) k_j / sqrt(d) (Strubell et al. 2018).  between: U, H x d x d"""

    between: torch.Tensor

    def added(self, q, h, i, count):
        root = math.sqrt(len(q[h][i]))
        columns = [_vector(column) for column in self.between[h].T]
        turned = [_dot(q[h][i], column) for column in columns]
        return [_dot(turned, self.all_keys[h][j]) / root for j in range(count)]


def parent_targets(parents, pieces, every):
    """Return for each piece the pieces that it should look at (Deguchi et al. 2019).

    A piece that does not end its word: the next one. The last one: the first piece of the word's
    parent, or itself at the root. With `every`: all pieces of the parent, or of the root itself.
    The end of sentence has none. parents: from 1, 0 = root.
    """
    words = word_of_pieces(pieces)
    targets = []
    for i, word in enumerate(words):
        parent = parents[word] - 1 if parents[word] else word
        of_parent = [j for j, other in enumerate(words) if other == parent]
        if every:
            targets.append(of_parent)
        elif i + 1 < len(words) and words[i + 1] == word:
            targets.append([i + 1])
        else:
            targets.append([i] if parent == word else of_parent[:1])
    return [*targets, []]


class DepsSan(OfWords):
    """The score becomes s_ij (2 pi sigma²)^(-1/2) exp(-t_ij² / (2 sigma²)) (Peng et al. 2021).

    The end of sentence is one edge further away than any two words are. With `furthest`, which is
    for training, words with more edges between them are as far as that.
    """

    sigma: float
    furthest: int = 0

    def change(self, score, h, i, j):
        count = len(self.words()) + 1
        known = [self.edges(a, b) for a in range(count) for b in range(count)]
        most = max([edges for edges in known if edges is not None], default=0) + 1
        t = self.edges(i, j)
        if t is None or (self.furthest and t > self.furthest):
            t = most
        bell = math.exp(-(t**2) / (2 * self.sigma**2))
        return score * bell / math.sqrt(2 * math.pi * self.sigma**2)


class TreeDepthBias(OfWords):
    """The score becomes s_ij + w_h[min(depth(j), r)], the last number is that of the end of
    sentence.  table: H x (r + 2)
    """

    table: torch.Tensor

    def added(self, q, h, i, count):
        words = self.words()
        depths = [len(path_up(self.parents, word)) - 1 for word in words]
        last = len(self.table[h]) - 1
        rows = [*(min(depth, last - 1) for depth in depths), last]
        return [_scalar(self.table[h][row]) for row in rows]


# --- brackets of a target ------------------------------------------------------------


def open_brackets(text):
    """Return how many brackets are open after each letter; more may be closed than were opened."""
    count, found = 0, []
    for letter in text:
        count += {"(": 1, ")": -1}.get(letter, 0)
        found.append(count)
    return found


class Brackets(Relative):
    """A query sees the pieces j <= i of its own bracket and of the bracket around that one (ours).

    Own: d_j = d_i and min(d_j … d_i) >= d_i;  around: d_j = d_i - 1 and min(d_j … d_i) >= d_i - 1
    c = min(n, r) in the own one, r + 1 + min(n, r) around it, n: the pieces of that bracket
    between j and i, i included. keys, values: H x 2 (r + 1) x d
    """

    def bracket(self, i, depth):
        d = self.depths
        return [j for j in range(i + 1) if d[j] == depth and min(d[j : i + 1]) >= depth]

    def rows(self, i):  # of the keys that are seen
        found = {}
        for first, depth in (0, self.depths[i]), (self.r + 1, self.depths[i] - 1):
            pieces = self.bracket(i, depth)
            for j in pieces:
                later = len([other for other in pieces if other > j])
                found[j] = first + min(later, self.r)
        return found

    def row(self, i, j):
        return self.rows(i).get(j, 0)  # of what is not seen any will do

    def allowed(self, q, h, i, count):
        return [j in self.rows(i) for j in range(count)]


class TreeWalk(OfWords):
    """Head 0 is plain attention; what it looks at says what the other heads may go on to (ours).

    a_i: the weights of head 0; p: the last u < i with d_u < d_i, or i - 1 where no brackets are
    known. r(k, j): 0 the same word, 1 j is the parent of k, 2 a child before it, 3 one after it.
    m_ij^r = sum_k a_ik [r(k, j) = r],  n_ij^r = sum_k a_pk [r(k, j) = r], 0 without p
    The score becomes s_ij + log(sum_r m_ij^r + n_ij^0 + n_ij^1 + 0.001)
    + sum_r (m_ij^r q_i . K_r + n_ij^r q_i . N_r) / sqrt(d).  keys: (H - 1) x 8 x d, first the K
    With `lead`, 1 x 4 x d, s_ij of head 0 becomes s_ij + log(sum_r l_ij^r + 0.001)
    + sum_r l_ij^r q_i . L_r / sqrt(d), l_ij^r = sum_k a'_pk [r(k, j) = r].  a': its weights without
    this bias, or `below`, those of the layer below.
    """

    keys: torch.Tensor
    lead: torch.Tensor | None = None
    below: list[dict[int, float]] | None = None

    def plain(self, q, i, count):
        root = math.sqrt(len(q[0][i]))
        return {k: _dot(q[0][i], self.all_keys[0][k]) / root for k in range(count)}

    def look(self, q, i, count):
        led = self.added(q, 0, i, count)
        return _softmax({k: score + led[k] for k, score in self.plain(q, i, count).items()})

    def before(self, i):
        if self.depths is None:
            return i - 1 if i > 0 else None
        found = [u for u in range(i) if self.depths[u] < self.depths[i]]
        return found[-1] if found else None

    def kind(self, k, j):
        words = [*self.words(), None]
        one, other = words[k], words[j]
        if one == other:
            return 0
        if one is None or other is None:
            return None
        if self.parents[one] - 1 == other:
            return 1
        if self.parents[other] - 1 == one:
            return 2 if other < one else 3
        return None

    def masses(self, look, j):  # of the four kinds
        found = [_scalar(0.0)] * 4
        for k, weight in look.items():
            if (kind := self.kind(k, j)) is not None:
                found[kind] = found[kind] + weight
        return found

    def added(self, q, h, i, count):
        p = self.before(i)
        if h == 0:
            if self.lead is None:
                return [0.0 for _ in range(count)]
            earlier = {} if p is None else _softmax(self.plain(q, p, count))
            if self.below and p is not None:
                earlier = self.below[p]
            towards = self.towards(q[0][i], self.lead[0])
            found = [self.masses(earlier, j) for j in range(count)]
            return [torch.log(sum(m) + 0.001) + _dot(m, towards) for m in found]
        towards = self.towards(q[h][i], self.keys[h - 1])
        now = self.look(q, i, count)
        earlier = {} if p is None else self.look(q, p, count)
        biases = []
        for j in range(count):
            m, n = self.masses(now, j), self.masses(earlier, j)
            biases.append(torch.log(sum(m) + n[0] + n[1] + 0.001) + _dot([*m, *n], towards))
        return biases

    def towards(self, query, table):
        vectors = [_vector(row) for row in table]
        return [_dot(query, vector) / math.sqrt(len(vector)) for vector in vectors]
