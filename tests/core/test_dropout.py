"""Fast dropout drops as many elements as it should, each by itself, and scales the others."""

import pytest
import torch

from fairseq_posattn.core.dropout import STEPS, fast_dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9, 2**-16])
@pytest.mark.parametrize("shape", [(1000, 401), (3, 5, 67, 331)])
def test_share_and_scale(rate, shape):
    torch.manual_seed(1)
    x = torch.rand(shape, dtype=torch.double) + 1
    found = fast_dropout(x, rate)
    kept = found != 0
    torch.testing.assert_close(found[kept], x[kept] / (1 - round(rate * STEPS) / STEPS))
    deviation = (rate * (1 - rate) / x.numel()) ** 0.5
    assert abs(1 - kept.double().mean().item() - rate) < 4 * deviation + 2**-17


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 401])
def test_elements_are_dropped_independently(apart):
    torch.manual_seed(2)
    dropped = (fast_dropout(torch.ones(1000, 401), 0.3) == 0).flatten().double() - 0.3
    covariance = (dropped[apart:] * dropped[:-apart]).mean().item()
    assert abs(covariance) < 4 * 0.21 / len(dropped) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_dropped_where_the_element_is(dtype):
    torch.manual_seed(3)
    x = torch.ones(7, 33, dtype=dtype, requires_grad=True)
    found = fast_dropout(x, 0.4)
    found.backward(torch.ones_like(found))
    assert torch.equal(x.grad, found.detach())
    assert found.dtype == dtype


def test_the_seed_decides():
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(fast_dropout(torch.ones(100), 0.5))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_rates_at_the_ends_are_those_of_torch(rate, expected):
    torch.manual_seed(1)
    assert (fast_dropout(torch.ones(50), rate) == expected).all()


def test_nothing_to_drop():
    assert fast_dropout(torch.ones(0, 4), 0.5).shape == (0, 4)
