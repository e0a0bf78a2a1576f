"""Attention over the states of a recurrent network; requires only torch.

Positional attention (Dagan 2019, "Positional Attentive Language Modelling", Eq. 5-12).

A small LSTM reads the states and predicts the centre mu and the width sigma of the attention at
each step. mu is a weighted sum of three building blocks: its previous value, 1 / N and t / N, where
t is the current step and N is the length of the sentence. The position of step i is i / N. Equation
10 is missing a minus sign in the paper.

`SourceAttention` lets an LSTM decoder attend to the encoder states (Section 4.1). It covers the
whole source, and N is the length of the source. Positions p_i = i / N are counted from i = 1, as
printed in Eq. 12. By default, mu is not limited. With the weights (1, 1, 0) or (0, 0, 1) of the
building blocks, it therefore advances by one position per step, whatever the length of the source.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32

# An upper bound of mu (our addition), which could otherwise grow exponentially and overflow. With
# mu at this bound, the last key already has all the weight.
FURTHEST = 1e4
CLAMPS = ("equation", "text", "unit", "none")


class PositionGenerator(nn.Module):
    """A small LSTM that predicts mu and sigma at each step from the states so far.

    clamp: how mu is limited (Eq. 8). `equation`: max(mu, t/N), as in the equation, so that mu never
        precedes the current step. `text`: mu in [0, t/N], as in the text of the paper. `unit`: mu
        in [0, 1]. `none`: no limit.
    floor: minimum of sigma.
    """

    def __init__(self, width: int, hidden: int = 20, clamp: str = "equation", floor: float = 0.0):
        super().__init__()
        if clamp not in CLAMPS:
            raise ValueError(f"unknown clamp {clamp!r}; choose from {', '.join(CLAMPS)}")
        self.clamp, self.floor = clamp, floor
        self.compress = nn.LSTM(width, hidden, batch_first=True)
        self.to_mu = nn.Linear(hidden, 3)  # W_mu
        self.to_sigma = nn.Linear(hidden, 1)  # W_sigma

    def forward(
        self, h: Tensor, lengths: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return mu and sigma, each of shape (B, T), and the state for the next steps.

        h: the states of the attending LSTM, of shape (B, T, C).
        lengths: the length N of each sentence, of shape (B,).
        state: the state that was returned for the previous steps; its tensors are batch-first.
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
        """Return mu at each step, of shape (B, T) (Eq. 6 to 8)."""
        factors = at_least_float32(torch.relu(self.to_mu(compressed)))  # Eq. 7: B T 3
        times = state["step"][:, None] + torch.arange(compressed.size(1), device=lengths.device)
        lengths = lengths.to(factors)[:, None]  # N: B 1
        # t starts at 1 in the third building block, and at 0 in the clamp.
        reached = (factors[..., 1] + factors[..., 2] * (times + 1)) / lengths  # B T
        low, high = self.bounds(times / lengths)
        mu, found = state["mu"].to(factors), []
        for kept, new, least, most in columns(factors[..., 0], reached, low, high):
            mu = torch.addcmul(new, kept, mu).clamp(least, most)
            found.append(mu)
        return torch.stack(found, dim=1)

    def bounds(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the lower and upper bounds of mu for the steps t / N, all of shape (B, T)."""
        zero, furthest = torch.zeros_like(present), torch.full_like(present, FURTHEST)
        return {
            "equation": (present, furthest),
            "text": (zero, present),
            "unit": (zero, torch.ones_like(present)),
            "none": (zero, furthest),  # mu is never negative in Eq. 7
        }[self.clamp]


def columns(*matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(matrix.unbind(dim=1) for matrix in matrices), strict=True)


def gaussian_weights(
    mu: Tensor, sigma: Tensor, positions: Tensor, allowed: Tensor, epsilon: float = 1e-3
) -> Tensor:
    """Return normalised attention weights of shape (B, Q, K), in float32 or better (Eq. 10 and 11).

    The weights are computed by an equivalent softmax, which does not underflow. Rows without any
    allowed key are zero.

    mu, sigma: tensors of shape (B, Q).
    positions: i / N for each key, of shape (B, K).
    allowed: boolean mask of the keys, broadcastable to (B, Q, K).
    """
    offset = at_least_float32(positions)[:, None, :] - at_least_float32(mu)[:, :, None]  # B Q K
    spread = 2 * at_least_float32(sigma).square() + epsilon  # B Q
    return softmax_weights(-offset.square() / spread[:, :, None], allowed)


State = dict[str, Tensor]  # of earlier steps, as batch-first tensors


class Source(NamedTuple):
    """The encoder states of a batch; padding may be at any position."""

    states: Tensor  # B S C
    real: Tensor  # B S, bool, True = not padding

    @property
    def lengths(self) -> Tensor:
        return self.real.sum(dim=1)  # N: B

    @property
    def positions(self) -> Tensor:
        """Return the position i / N of each state, of shape (B, S) (Eq. 12)."""
        return at_least_float32(self.real.cumsum(dim=1) / self.lengths[:, None])


class SourceAttention(nn.Module):
    """Maps h_t to tanh(W [c_t ; h_t]); subclasses compute the weights for the context c_t."""

    def __init__(self, width: int):
        super().__init__()
        self.combine = nn.Linear(2 * width, width)

    def forward(
        self, h: Tensor, source: Source, state: State | None = None
    ) -> tuple[Tensor, Tensor, State]:
        """Return combined states, (B, Q, C), weights, (B, Q, S), and the state for later steps."""
        weights, state = self.weigh(h, source, state)
        context = torch.bmm(weights.type_as(h), source.states)  # Eq. 13: B Q C
        return torch.tanh(self.combine(torch.cat([context, h], dim=-1))), weights, state

    def weigh(self, h: Tensor, source: Source, state: State | None) -> tuple[Tensor, State]:
        """Return weights, (B, Q, S), in at least float32, and the state for later steps."""
        raise NotImplementedError


class PositionalSourceAttention(SourceAttention):
    """Attention that depends on positions in the source (Eq. 5 to 12)."""

    def __init__(
        self,
        width: int,
        hidden: int = 20,
        clamp: str = "none",
        floor: float = 0.0,
        epsilon: float = 1e-3,
    ):
        super().__init__(width)
        self.generator = PositionGenerator(width, hidden, clamp, floor)
        self.epsilon = epsilon

    def weigh(self, h: Tensor, source: Source, state: State | None) -> tuple[Tensor, State]:
        mu, sigma, state = self.generator(h, source.lengths, state)  # B Q each
        allowed = source.real[:, None, :]
        return gaussian_weights(mu, sigma, source.positions, allowed, self.epsilon), state


class ContentSourceAttention(SourceAttention):
    """Attention that depends on the content of the states (Eq. 1).

    The scores are computed by a multi-layer perceptron (Bahdanau et al. 2014).
    """

    def __init__(self, width: int):
        super().__init__(width)
        self.query_proj = nn.Linear(width, width)
        self.key_proj = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def weigh(self, h: Tensor, source: Source, state: State | None) -> tuple[Tensor, State]:
        query, key = self.query_proj(h)[:, :, None], self.key_proj(source.states)[:, None]
        scores = self.score(torch.tanh(query + key)).squeeze(-1)  # B Q S
        return softmax_weights(at_least_float32(scores), source.real[:, None, :]), {}
