"""Make one vector of the vectors of the pieces of a sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def mean(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    """Return the mean over the real pieces."""
    weights = real.unsqueeze(-1).to(states)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def maximum(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    """Return the largest number of each dimension over the real pieces."""
    return states.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(dim=1)


def last(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    """Return the vector of the last real piece."""
    places = torch.arange(real.shape[1], device=real.device) * real
    return states[torch.arange(len(states)), places.argmax(dim=1)]


def end_of_sentence(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    """Return the vector of the end of the sentence."""
    return states[torch.arange(len(states)), end.int().argmax(dim=1)]


# Each takes the vectors of the pieces (B T C), which pieces are real (B T), and where the sentence
# ends (B T), and returns B C.
POOLINGS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean": mean,
    "max": maximum,
    "last": last,
    "end": end_of_sentence,
}
