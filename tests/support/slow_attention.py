"""Slow references for attention over an LSTM's states are written from the paper's equations.

Dagan 2019, "Positional Attentive Language Modelling". Plain loops over float64 scalars, one
sentence at a time, nothing of the package. What is computed from tensors stays differentiable.
"""

import math

import torch


def lstm(states, weights) -> list[list]:
    """Run one LSTM layer (Eq. 5): states N x C; weights: W_ih, W_hh, b_ih, b_hh, gates i f g o."""
    input_weight, hidden_weight, input_bias, hidden_bias = weights
    width = len(hidden_weight[0])
    hidden, cell = [scalar(0.0)] * width, [scalar(0.0)] * width
    outputs = []
    for state in states:
        gates = []
        for row in range(4 * width):
            total = input_bias[row] + hidden_bias[row]
            for j in range(len(state)):
                total = total + input_weight[row][j] * state[j]
            for j in range(width):
                total = total + hidden_weight[row][j] * hidden[j]
            gates.append(total)
        kept = [torch.sigmoid(gate) for gate in gates[width : 2 * width]]
        entered = [torch.sigmoid(gate) for gate in gates[:width]]
        offered = [torch.tanh(gate) for gate in gates[2 * width : 3 * width]]
        opened = [torch.sigmoid(gate) for gate in gates[3 * width :]]
        cell = [f * c + i * g for f, c, i, g in zip(kept, cell, entered, offered, strict=True)]
        hidden = [o * torch.tanh(c) for o, c in zip(opened, cell, strict=True)]
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
    mu = scalar(0.0)
    for t in range(count):
        blocks = [mu, 1 / length, (t + 1) / length]  # Eq. 6
        factors = []
        for row in range(3):
            factors.append(torch.relu(dot(mu_layer[0][row], compressed[t]) + mu_layer[1][row]))
        mu = dot(factors, blocks)  # Eq. 7
        if clamp == "equation":  # Eq. 8 as printed
            mu = larger(mu, t / length)
        elif clamp == "text":  # the text below Eq. 9
            mu = smaller(larger(mu, 0.0), t / length)
        elif clamp == "unit":
            mu = smaller(larger(mu, 0.0), 1.0)
        sigma = torch.sigmoid(dot(sigma_layer[0][0], compressed[t]) + sigma_layer[1][0])  # Eq. 9
        sigmas.append(larger(sigma, floor))
        mus.append(mu)
    return mus, sigmas


def gaussian(mu, sigma, positions, allowed, epsilon=1e-3):
    """Return Eq. 10 (with its minus sign) and 11 for one query; where nothing is allowed, zeros."""
    gammas = []
    for i in range(len(positions)):
        gamma = torch.exp(-((positions[i] - mu) ** 2) / (2 * sigma**2 + epsilon))
        gammas.append(gamma if allowed[i] else scalar(0.0))
    return normalised(gammas)


def content(states, first, second, include_current=True):
    """Return the weights of each step t over the states, N x N (Eq. 1 and 4)."""
    scores = []
    for state in states:
        inner = []
        for row in range(len(first[0])):
            inner.append(torch.tanh(dot(first[0][row], state) + first[1][row]))
        scores.append(dot(second[0][0], inner) + second[1][0])
    rows = []
    for t in range(len(states)):
        last = t if include_current else t - 1
        rows.append(
            normalised(
                [torch.exp(scores[i]) if i <= last else scalar(0.0) for i in range(len(states))]
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
        context = [scalar(0.0)] * len(states[0])
        for weight, state in zip(row, states, strict=True):
            context = [c + weight * number for c, number in zip(context, state, strict=True)]
        found.append(context)
    return found


def normalised(numbers: list) -> list:
    total = scalar(0.0)
    for number in numbers:
        total = total + number
    return [number / total if total > 0 else number for number in numbers]


def dot(one, other):
    total = scalar(0.0)
    for a, b in zip(one, other, strict=True):
        total = total + a * b
    return total


def larger(number, bound: float):
    return number if number > bound else scalar(bound)


def smaller(number, bound: float):
    return number if number < bound else scalar(bound)


def scalar(number) -> torch.Tensor:
    return torch.as_tensor(number, dtype=torch.float64)


def perplexity(losses: list[float], words: int) -> float:
    """exp of the summed loss over the words that it is shared by."""
    total = 0.0
    for loss in losses:
        total += loss
    return math.exp(total / words)
