"""Checks of which distribution numbers were drawn from: its standard deviation, its shape (the
kurtosis is 3 for the normal one, 1.8 for the uniform one) and where it ends."""

import pytest
from torch import Tensor

CUT_AT = 2 / 0.87962566103423978  # two deviations before the cut, in those that remain after it


def check_normal(numbers: Tensor, deviation: float) -> None:
    check(numbers, deviation, kurtosis=3, least_end=3, end=float("inf"))


def check_keras_normal(numbers: Tensor, deviation: float) -> None:
    """Check for a normal distribution that is cut off at two standard deviations."""
    check(numbers, deviation, kurtosis=2.366, least_end=2.2, end=CUT_AT)


def check_uniform(numbers: Tensor, deviation: float) -> None:
    check(numbers, deviation, kurtosis=1.8, least_end=1.7, end=3**0.5)


def check(numbers: Tensor, deviation: float, kurtosis: float, least_end: float, end: float) -> None:
    scaled = numbers.detach().double().flatten() / deviation
    assert scaled.mean() == pytest.approx(0, abs=0.02)
    assert scaled.std() == pytest.approx(1, abs=0.02)
    assert scaled.pow(4).mean() / scaled.pow(2).mean() ** 2 == pytest.approx(kurtosis, abs=0.1)
    assert least_end < scaled.abs().max() <= end * (1 + 1e-6)
