"""Attention to positions is that of Dagan 2019 ("Positional Attentive Language Models", Eq. 5-12).

A small LSTM reads the states and says at each step where to look, mu, and how sharply, sigma. A
position is i / N; N is the length of the sentence. Equation 10 lacks a minus sign in print.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32

# Without a bound mu grows by a factor at each step and overflows while a model explodes. With mu at
# this bound (ours) all weight lies on the last key already.
FURTHEST = 1e4
CLAMPS = ("equation", "text", "unit", "none")


class PositionGenerator(nn.Module):
    """This small LSTM predicts mu and sigma of each step from the states up to it.

    The option clamp says how Eq. 8 limits mu. `equation` takes it as printed, max(mu, t/N), so that
    mu lies at the present or beyond; `text` takes what the text of the paper says, mu in [0, t/N];
    `unit` keeps mu in [0, 1]; `none` sets no limit.
    """

    def __init__(self, width: int, hidden: int = 20, clamp: str = "equation", floor: float = 0.0):
        super().__init__()
        if clamp not in CLAMPS:
            raise ValueError(f"clamp {clamp!r}: choose from {', '.join(CLAMPS)}")
        self.clamp, self.floor = clamp, floor
        self.compress = nn.LSTM(width, hidden, batch_first=True)
        self.to_mu = nn.Linear(hidden, 3)  # W_mu
        self.to_sigma = nn.Linear(hidden, 1)  # W_sigma

    def forward(
        self, h: Tensor, lengths: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return mu and sigma, B T each, and the state for further steps.

        h: B T C, the states of the LSTM that attends; lengths: B, N of each sentence; state: what
        the call for the steps before returned. Every tensor of a state has the batch first.
        """
        state = self.start(h) if state is None else state
        past = (state["hidden"][None].contiguous(), state["cell"][None].contiguous())
        compressed, (hidden, cell) = self.compress(h, past)  # Eq. 5: B T hidden
        sigma = at_least_float32(torch.sigmoid(self.to_sigma(compressed)))  # Eq. 9
        mu = self.locate(compressed, lengths, state)
        state = {
            "hidden": hidden[0],
            "cell": cell[0],
            "mu": mu[:, -1],
            "step": state["step"] + h.size(1),
        }
        return mu, sigma.squeeze(-1).clamp(min=self.floor), state

    def start(self, h: Tensor) -> dict[str, Tensor]:
        zeros = h.new_zeros(h.size(0), self.compress.hidden_size)
        mu = at_least_float32(h.new_zeros(h.size(0)))
        step = torch.zeros(h.size(0), dtype=torch.long, device=h.device)
        return {"hidden": zeros, "cell": zeros, "mu": mu, "step": step}

    def locate(self, compressed: Tensor, lengths: Tensor, state: dict[str, Tensor]) -> Tensor:
        """Return mu of each step, B T (Eq. 6 to 8)."""
        factors = at_least_float32(torch.relu(self.to_mu(compressed)))  # Eq. 7: B T 3
        times = state["step"][:, None] + torch.arange(compressed.size(1), device=lengths.device)
        lengths = lengths.to(factors)[:, None]  # N: B 1
        # t counts from 1 in the third building block, and from 0 in the clamp.
        reached = (factors[..., 1] + factors[..., 2] * (times + 1)) / lengths  # B T
        low, high = self.bounds(times / lengths)
        mu, found = state["mu"].to(factors), []
        for kept, new, least, most in columns(factors[..., 0], reached, low, high):
            mu = torch.addcmul(new, kept, mu).clamp(least, most)
            found.append(mu)
        return torch.stack(found, dim=1)

    def bounds(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and the greatest mu of each step, B T each; present: t / N, B T."""
        zero, furthest = torch.zeros_like(present), torch.full_like(present, FURTHEST)
        return {
            "equation": (present, furthest),
            "text": (zero, present),
            "unit": (zero, torch.ones_like(present)),
            "none": (zero, furthest),  # never negative anyway, by Eq. 7
        }[self.clamp]


def columns(*matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(matrix.unbind(dim=1) for matrix in matrices), strict=True)


def gaussian_weights(
    mu: Tensor, sigma: Tensor, positions: Tensor, allowed: Tensor, epsilon: float = 1e-3
) -> Tensor:
    """Return weights, B Q K in float32 at least, normalised over the allowed keys (Eq. 10 and 11).

    mu, sigma: B Q; positions: B K, i / N; allowed: bool, broadcastable to B Q K. A softmax is the
    same and stays right in rows where every gamma by itself would underflow, since it subtracts the
    largest exponent. A row in which nothing is allowed gives zeros.
    """
    offset = at_least_float32(positions)[:, None, :] - at_least_float32(mu)[:, :, None]  # B Q K
    spread = 2 * at_least_float32(sigma).square() + epsilon  # B Q
    return softmax_weights(-offset.square() / spread[:, :, None], allowed)
