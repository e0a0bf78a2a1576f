"""Slow references for attention over an LSTM's states are written from the paper's equations.

Dagan 2019, "Positional Attentive Language Modelling". Plain loops over float64 scalars, one
sentence at a time, nothing of the package. What is computed from tensors stays differentiable.

The last part is a decoder's attention to its source (Eq. 1, 2 and 5 to 13): the states attended to
are the source's, N of them, at p_i = i / N with i from 1; t counts the decoder's steps from 1, and
mu_0 = 0. All of the source may be looked at, so that mu has no clamp.
"""

import math

import torch

from support.reference import _dot, _numbers, _scalar, _softmax, _stack, _sum, _vector, linear


def lstm(states, weights) -> list[list]:
    """Run one LSTM layer (Eq. 5): states N x C; weights: W_ih, W_hh, b_ih, b_hh, gates i f g o."""
    input_weight, hidden_weight, input_bias, hidden_bias = weights
    width = len(hidden_weight[0])
    hidden, cell = [_scalar(0.0)] * width, [_scalar(0.0)] * width
    outputs = []
    for state in states:
        gates = _sum(
            linear(state, input_weight, input_bias), linear(hidden, hidden_weight, hidden_bias)
        )
        entered, kept, offered, opened = (gates[k * width : (k + 1) * width] for k in range(4))
        cell = [
            torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            for f, c, i, g in zip(kept, cell, entered, offered, strict=True)
        ]
        hidden = [torch.sigmoid(o) * torch.tanh(c) for o, c in zip(opened, cell, strict=True)]
        outputs.append(hidden)
    return outputs


def positions_of_attention(states, weights, mu_layer, sigma_layer, clamp, length=None, floor=0.0):
    """Return mu_t and sigma_t of one sentence of N states (Eq. 5 to 9).

    t counts from 0 in the clamp and from 1 in the third building block.
    """
    count = len(states)
    length = count if length is None else length  # N
    compressed = lstm(states, weights)
    mus, sigmas = [], []
    mu = _scalar(0.0)
    for t in range(count):
        blocks = [mu, 1 / length, (t + 1) / length]  # Eq. 6
        factors = []
        for row in range(3):
            factors.append(torch.relu(_dot(mu_layer[0][row], compressed[t]) + mu_layer[1][row]))
        mu = _dot(factors, blocks)  # Eq. 7
        if clamp == "equation":  # Eq. 8 as printed
            mu = larger(mu, t / length)
        elif clamp == "text":  # the text below Eq. 9
            mu = smaller(larger(mu, 0.0), t / length)
        elif clamp == "unit":
            mu = smaller(larger(mu, 0.0), 1.0)
        sigma = torch.sigmoid(_dot(sigma_layer[0][0], compressed[t]) + sigma_layer[1][0])  # Eq. 9
        sigmas.append(larger(sigma, floor))
        mus.append(mu)
    return mus, sigmas


def gaussian(mu, sigma, positions, allowed, epsilon=1e-3):
    """Return Eq. 10 (with its minus sign) and 11 for one query; where nothing is allowed, zeros."""
    gammas = []
    for i in range(len(positions)):
        gamma = torch.exp(-((positions[i] - mu) ** 2) / (2 * sigma**2 + epsilon))
        gammas.append(gamma if allowed[i] else _scalar(0.0))
    return normalised(gammas)


def content(states, first, second, include_current=True):
    """Return the weights of each step t over the states, N x N (Eq. 1 and 4)."""
    scores = []
    for state in states:
        inner = []
        for row in range(len(first[0])):
            inner.append(torch.tanh(_dot(first[0][row], state) + first[1][row]))
        scores.append(_dot(second[0][0], inner) + second[1][0])
    rows = []
    for t in range(len(states)):
        last = t if include_current else t - 1
        rows.append(
            normalised(
                [torch.exp(scores[i]) if i <= last else _scalar(0.0) for i in range(len(states))]
            )
        )
    return rows


def positional(states, weights, mu_layer, sigma_layer, clamp, include_current=True, **options):
    """Return the weights of each step t over the states, N x N (Eq. 5 to 12)."""
    epsilon = options.pop("epsilon", 1e-3)
    count = len(states)
    length = options.get("length") or count
    mus, sigmas = positions_of_attention(states, weights, mu_layer, sigma_layer, clamp, **options)
    places = [i / length for i in range(count)]  # Eq. 12
    rows = []
    for t in range(count):
        last = t if include_current else t - 1
        allowed = [i <= last for i in range(count)]
        rows.append(gaussian(mus[t], sigmas[t], places, allowed, epsilon))
    return rows


def contexts(rows, states) -> list[list]:
    """Return c_t, the states summed by their weights (Eq. 2)."""
    found = []
    for row in rows:
        context = [_scalar(0.0)] * len(states[0])
        for weight, state in zip(row, states, strict=True):
            context = [c + weight * number for c, number in zip(context, state, strict=True)]
        found.append(context)
    return found


def normalised(numbers: list) -> list:
    total = _scalar(0.0)
    for number in numbers:
        total = total + number
    return [number / total if total > 0 else number for number in numbers]


def larger(number, bound: float):
    return number if number > bound else _scalar(bound)


def smaller(number, bound: float):
    return number if number < bound else _scalar(bound)


def perplexity(losses: list[float], words: int) -> float:
    """exp of the summed loss over the words that it is shared by."""
    total = 0.0
    for loss in losses:
        total += loss
    return math.exp(total / words)


# --- from a decoder's states to a source's ---------------------------------------------


def positional_weights(h, count, parameters, clamp="none"):
    """h: T x C, the decoder's states; count: N -> T x N."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    read = [parameters[f"generator.compress.{name}_l0"] for name in names]
    layers = [
        [parameters[f"generator.{name}.{kind}"] for kind in ("weight", "bias")]
        for name in ("to_mu", "to_sigma")
    ]
    mus, sigmas = positions_of_attention(_numbers(h), read, *layers, clamp, count)
    places = [_scalar(i / count) for i in range(1, count + 1)]  # Eq. 12
    pairs = zip(mus, sigmas, strict=True)
    return _stack([gaussian(mu, sigma, places, [True] * count) for mu, sigma in pairs])


def content_weights(h, states, parameters):
    """Return T x N: Eq. 1 with score(s_i, h_t) = v . tanh(W_q h_t + b + W_k s_i)."""
    rows = []
    for query in _numbers(h):
        scores = {}
        for i, key in enumerate(_numbers(states)):
            asked = layer(query, parameters, "query_proj")
            told = linear(key, parameters["key_proj.weight"])
            inner = [torch.tanh(number) for number in _sum(asked, told)]
            scores[i] = _dot(_vector(parameters["score.weight"][0]), inner)
        weights = _softmax(scores)
        rows.append([weights[i] for i in range(len(states))])
    return _stack(rows)


def combined(h, states, weights, parameters):
    """Return tanh(W [c_t ; h_t] + b), with c_t by Eq. 13."""
    rows, found = [], contexts(_numbers(weights), _numbers(states))
    for query, context in zip(_numbers(h), found, strict=True):
        out = layer([*context, *query], parameters, "combine")
        rows.append([torch.tanh(number) for number in out])
    return _stack(rows)


def layer(x, parameters, name):
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
