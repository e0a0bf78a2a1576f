"""Plain loops are the slow reference of attention from a decoder's states to a source's.

Dagan 2019, Eq. 1, 2 and 5 to 13, read for a decoder: the states attended to are the source's, N of
them, at p_i = i / N with i from 1; t counts the decoder's steps from 1, and mu_0 = 0. All of the
source may be looked at, so that mu has no clamp. One sentence without padding; parameters are
given by the names of `state_dict`, and all is float64.
"""

import torch

from support.reference import _dot, _numbers, _scalar, _softmax, _stack, _sum, _vector, linear


def positional_weights(h, count, parameters, epsilon=1e-3, clamp="none"):
    """h: T x C, the decoder's states; count: N -> T x N."""
    read = lstm(h, parameters, "generator.compress.")
    previous, rows = _scalar(0.0), []
    for t, state in enumerate(read, start=1):
        factors = [torch.relu(f) for f in layer(state, parameters, "generator.to_mu")]  # Eq. 7
        blocks = [previous, _scalar(1 / count), _scalar(t / count)]  # Eq. 6
        previous = _dot(factors, blocks)  # Eq. 8 without its clamp
        if clamp == "unit":
            previous = min(previous, _scalar(1.0))
        (sigma,) = [torch.sigmoid(s) for s in layer(state, parameters, "generator.to_sigma")]
        exponents = {}
        for i in range(1, count + 1):
            offset = _scalar(i / count) - previous  # Eq. 12
            exponents[i] = -offset * offset / (2 * sigma * sigma + epsilon)  # Eq. 10
        weights = _softmax(exponents)  # Eq. 11: their exp, normalised
        rows.append([weights[i] for i in range(1, count + 1)])
    return _stack(rows)


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
    rows, states = [], _numbers(states)
    for query, row in zip(_numbers(h), _numbers(weights), strict=True):
        context = [_scalar(0.0)] * len(states[0])
        for weight, state in zip(row, states, strict=True):
            context = _sum(context, [weight * number for number in state])
        out = layer([*context, *query], parameters, "combine")
        rows.append([torch.tanh(number) for number in out])
    return _stack(rows)


def lstm(inputs, parameters, prefix):
    """One layer from zeros; torch's order of gates: input, forget, cell, output."""
    size = parameters[f"{prefix}weight_hh_l0"].size(1)
    hidden, cell, out = [_scalar(0.0)] * size, [_scalar(0.0)] * size, []
    for x in _numbers(inputs):
        gates = _sum(
            linear(x, parameters[f"{prefix}weight_ih_l0"], parameters[f"{prefix}bias_ih_l0"]),
            linear(hidden, parameters[f"{prefix}weight_hh_l0"], parameters[f"{prefix}bias_hh_l0"]),
        )
        for k in range(size):
            take, keep = torch.sigmoid(gates[k]), torch.sigmoid(gates[size + k])
            new, show = torch.tanh(gates[2 * size + k]), torch.sigmoid(gates[3 * size + k])
            cell[k] = keep * cell[k] + take * new
            hidden[k] = show * torch.tanh(cell[k])
        out.append(list(hidden))
        hidden, cell = list(hidden), list(cell)
    return out


def layer(x, parameters, name):
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
