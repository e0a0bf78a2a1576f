"""Attention over the states of an LSTM, against the slow loops, and what must always hold."""

import pytest
import torch

from fairseq_posattn.core.recurrent import PositionGenerator, gaussian_weights
from fairseq_posattn.language_models.network import ContentAttention, PositionalAttention
from support import slow_attention as slow

WIDTH, HIDDEN = 4, 3
CLAMPS = ("equation", "text", "unit", "none")


def random_attention(kind, dtype=torch.float64, seed=0, **options):
    """Build an attention whose parameters are all far from zero, so that none is without effect by
    chance."""
    torch.manual_seed(seed)
    if kind == "content":
        attention = ContentAttention(WIDTH, **options)
    else:
        attention = PositionalAttention(WIDTH, hidden=HIDDEN, **options)
    for parameter in attention.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    if kind != "content":  # some of the factors of mu at zero, most of them not
        torch.nn.init.constant_(attention.generator.to_mu.bias, 0.3)
    return attention.to(dtype)


def states(*lengths, dtype=torch.float64):
    """Sentences of these lengths, padded on the right with what must not matter."""
    torch.manual_seed(1)
    return torch.randn(len(lengths), max(lengths), WIDTH, dtype=dtype), torch.tensor(lengths)


def loop_weights(attention, h, length, **options):
    """Return the weights of the slow reference with the parameters of a module; h: N C."""
    if isinstance(attention, ContentAttention):
        score = attention.score
        layers = [(layer.weight, layer.bias) for layer in (score.inner, score.outer)]
        return slow.content(h, *layers, include_current=attention.include_current)
    generator = attention.generator
    layers = [(layer.weight, layer.bias) for layer in (generator.to_mu, generator.to_sigma)]
    return slow.positional(
        h,
        list(generator.compress.parameters()),
        *layers,
        generator.clamp,
        attention.include_current,
        length=int(length),
        floor=generator.floor,
        epsilon=attention.epsilon,
    )


def as_tensor(rows):
    return torch.stack([torch.stack(list(row)) for row in rows])


KINDS = [
    ("content", {}),
    ("content", {"include_current": False}),
    *[("positional", {"clamp": clamp}) for clamp in CLAMPS],
    ("positional", {"include_current": False}),
    ("positional", {"clamp": "text", "floor": 0.6, "epsilon": 0.1}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_and_contexts_as_the_slow_loops_give_them(kind, options, seed):
    attention = random_attention(kind, seed=seed, **options)
    h, lengths = states(5, 3, 1)
    combined, weights, _ = attention(h, lengths)
    for b, length in enumerate(lengths.tolist()):
        sentence = h[b, :length]
        expected = loop_weights(attention, sentence, length)
        torch.testing.assert_close(weights[b, :length, :length], as_tensor(expected))
        assert not weights[b, :length, length:].any()
        context = as_tensor(slow.contexts(expected, sentence))
        both = torch.cat([context, sentence], dim=-1)
        output = torch.tanh(both @ attention.combine.weight.T + attention.combine.bias)
        torch.testing.assert_close(combined[b, :length], output)


def test_the_two_readings_of_the_clamp_lie_on_either_side_of_the_present():
    h, lengths = states(6, 6, 6)
    present = torch.arange(6, dtype=torch.float64) / 6
    for seed in range(5):
        beyond, _, _ = random_attention("positional", seed=seed).generator(h, lengths)
        within, _, _ = random_attention("positional", seed=seed, clamp="text").generator(h, lengths)
        assert (beyond >= present).all() and (within <= present).all() and (within >= 0).all()


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_step_by_step_as_all_at_once(kind, options):
    attention = random_attention(kind, **options)
    h, lengths = states(6, 6)
    whole, state, found = attention(h, lengths)[0], None, []
    for part in h.split([2, 1, 3], dim=1):
        combined, _, state = attention(part, lengths, state)
        found.append(combined)
    torch.testing.assert_close(torch.cat(found, dim=1), whole)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_gradients(kind, options):
    attention = random_attention(kind, seed=4, **options)
    h, lengths = states(4, 3)
    parameters = list(attention.parameters())
    assert torch.autograd.gradcheck(
        lambda h, *_: attention(h, lengths)[0], (h.requires_grad_(), *parameters)
    )
    attention(h, lengths)[0].sum().backward()
    for name, parameter in attention.named_parameters():
        # a bias that is added to every score changes no weight
        assert parameter.grad.any() or name == "score.outer.bias", name


def test_a_row_with_nothing_allowed_gives_zeros_and_no_gradient():
    attention = random_attention("positional", include_current=False)
    h, lengths = states(3)
    _, weights, _ = attention(h.requires_grad_(), lengths)
    assert not weights[0, 0].any() and weights[0, 1].sum() == 1
    weights[0, 0].sum().backward()
    assert not h.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_weights_stand_where_every_gamma_underflows(dtype):
    mu, sigma = torch.tensor([[5.0, 1e4]], dtype=dtype), torch.tensor([[0.01, 1e-4]], dtype=dtype)
    positions = torch.tensor([[0.0, 0.25, 0.5]], dtype=dtype)
    mu, sigma = mu.requires_grad_(), sigma.requires_grad_()
    weights = gaussian_weights(mu, sigma, positions, torch.ones(2, 3, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.tensor([[[0.0, 0, 1], [0, 0, 1]]]))
    weights[..., 1].sum().backward()
    assert mu.grad.isfinite().all() and sigma.grad.isfinite().all()


def test_an_exploding_generator_stays_finite():
    attention = random_attention("positional", dtype=torch.float32)
    torch.nn.init.constant_(attention.generator.to_mu.bias, 1000.0)
    h, lengths = states(35, dtype=torch.float32)
    combined, weights, _ = attention(h.requires_grad_(), lengths)
    combined.sum().backward()
    torch.testing.assert_close(weights[0].diagonal(), torch.ones(35))
    for gradient in (h.grad, *(parameter.grad for parameter in attention.parameters())):
        assert gradient.isfinite().all()


def test_an_unknown_clamp_is_refused():
    with pytest.raises(ValueError, match="'paper'; choose from equation, text"):
        PositionGenerator(WIDTH, clamp="paper")
