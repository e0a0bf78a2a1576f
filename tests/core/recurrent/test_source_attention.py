"""A decoder's attention to its source gives what loops written from the equations give."""

import pytest
import torch

from fairseq_posattn.core.recurrent import (
    ContentSourceAttention,
    PositionalSourceAttention,
    Source,
)
from support.slow_attention import combined, content_weights, positional_weights

WIDTH = 5
BUILT = {
    "positional": lambda: PositionalSourceAttention(WIDTH, hidden=3),
    "unit": lambda: PositionalSourceAttention(WIDTH, hidden=3, clamp="unit"),
    "content": lambda: ContentSourceAttention(WIDTH),
}


@pytest.fixture(params=BUILT)
def kind(request):
    return request.param


def build(kind, seed=1):
    torch.manual_seed(seed)
    attention = BUILT[kind]().double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.uniform_(-1, 1)
        if kind != "content":
            attention.generator.to_mu.bias.add_(0.3)  # of ReLU, some are to let through
    return attention


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def everything(batch, length):
    return torch.ones(batch, length, dtype=torch.bool)


def slow_weights(kind, h, states, parameters):
    if kind == "content":
        return content_weights(h, states, parameters)
    clamp = "unit" if kind == "unit" else "none"
    return positional_weights(h, len(states), parameters, clamp=clamp)


@pytest.mark.parametrize("seed", range(4))
def test_weights_and_output_are_those_of_the_equations(kind, seed):
    attention = build(kind, seed)
    h, states = drawn(1, 6, WIDTH), drawn(1, 4, WIDTH)
    out, weights, _ = attention(h, Source(states, everything(1, 4)))
    parameters = attention.state_dict()
    expected = slow_weights(kind, h[0], states[0], parameters)
    torch.testing.assert_close(weights[0], expected)
    torch.testing.assert_close(out[0], combined(h[0], states[0], expected, parameters))


def test_constant_factors_walk_through_a_source_of_any_length():
    attention = build("positional")
    generator = attention.generator
    for factors in ([1.0, 1.0, 0.0], [0.0, 0.0, 1.0]):
        with torch.no_grad():
            generator.to_mu.weight.zero_()
            generator.to_mu.bias.copy_(torch.tensor(factors))
            generator.to_sigma.bias.fill_(-10.0)
            generator.to_sigma.weight.zero_()
        for length in (1, 3, 11):
            source = Source(drawn(1, length, WIDTH), everything(1, length))
            _, weights, _ = attention(drawn(1, length + 2, WIDTH), source)
            looked_at = weights[0].argmax(-1).tolist()
            assert looked_at == [*range(length), length - 1, length - 1]  # then at the last word


def test_padding_anywhere_and_the_batch_change_nothing(kind):
    attention = build(kind)
    h, states = drawn(1, 6, WIDTH), drawn(1, 3, WIDTH)
    alone, weights, _ = attention(h, Source(states, everything(1, 3)))
    for columns in ([0, 1, 2], [3, 4, 5], [1, 2, 3], [0, 2, 5]):
        padded, real = drawn(2, 6, WIDTH), everything(2, 6)
        real[0] = False
        real[0, columns], padded[0, columns] = True, states[0]
        out, found, _ = attention(torch.cat([h, drawn(1, 6, WIDTH)]), Source(padded, real))
        torch.testing.assert_close(out[:1], alone)
        torch.testing.assert_close(found[0][:, columns], weights[0])
        assert (found[0][:, ~real[0]] == 0).all()


def test_gradients(kind):
    attention = build(kind)
    real = everything(2, 3)
    real[0, 0] = False

    def weighed(h, states):
        return attention(h, Source(states, real))[0]

    inputs = (drawn(2, 4, WIDTH).requires_grad_(), drawn(2, 3, WIDTH).requires_grad_())
    assert torch.autograd.gradcheck(weighed, inputs)
    weighed(*inputs).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert attention.combine.weight.grad.abs().sum() > 0


def test_bfloat16_is_close(kind):
    attention = build(kind)
    h, states = drawn(2, 4, WIDTH), drawn(2, 9, WIDTH)
    expected, _, _ = attention(h, Source(states, everything(2, 9)))
    low = attention.to(torch.bfloat16)
    found, weights, _ = low(h.bfloat16(), Source(states.bfloat16(), everything(2, 9)))
    assert weights.dtype == torch.float32 and found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, atol=0.1, rtol=0.1)
