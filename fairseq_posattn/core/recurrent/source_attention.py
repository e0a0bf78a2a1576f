"""Attention of an LSTM decoder to the encoder states (Dagan 2019, Section 4.1).

The attention is the same as in the language models, but covers the whole source. N is the length of
the source. Positions p_i = i / N are counted from i = 1, as printed in Eq. 12. By default, mu is
not limited. mu is a weighted sum of three terms (see `positional`). With the weights (1, 1, 0) or
(0, 0, 1), it therefore advances by one position per step, whatever the length of the source.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.recurrent.positional import PositionGenerator, gaussian_weights

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
    """Attention that depends on the contents of the states (Eq. 1).

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
