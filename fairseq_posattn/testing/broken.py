"""A broken promise says what was expected, what was found, and where in the class to look."""

from __future__ import annotations

import torch
from torch import Tensor

METHODS = (  # those that the pipeline calls
    *("before", "transform", "expand", "bias", "change_scores", "allowed", "change_weights"),
    *("value_term", "replace", "fast_path"),
)


class ContractError(AssertionError):
    """A mechanism breaks the contract; the message lists all promises that it breaks."""


class BrokenPromise(ContractError):
    """A check has found that a mechanism breaks a promise of the contract."""

    def __init__(
        self, expected: str, found: str, look: str = "", methods: tuple[str, ...] = METHODS
    ):
        super().__init__(f"expected {expected}, found {found}" + (f"; {look}" if look else ""))
        self.expected, self.found, self.look, self.methods = expected, found, look, methods


class NotApplicable(Exception):
    """A check has nothing to check in this mechanism; the message says why."""


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Return the largest absolute difference, which is nan where a number is nan."""
    if one.shape != other.shape or one.numel() == 0:
        return 0.0 if one.shape == other.shape else float("inf")
    return float((one.detach().double() - other.detach().double()).abs().max())


def is_close(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are equal up to rounding in their precision."""
    try:
        torch.testing.assert_close(one, other)
    except AssertionError:
        return False
    return True


def expect_same(
    found: Tensor, expected: Tensor, promise: str, look: str, methods: tuple[str, ...] = METHODS
) -> None:
    """Refuse an output that differs from what it should be by more than rounding."""
    if not is_close(found, expected):
        difference = f"a difference of {largest_difference(found, expected):.2g}"
        raise BrokenPromise(promise, difference, look, methods)


def shape_of(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))
