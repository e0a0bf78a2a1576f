"""Attention of an LSTM language model to its own earlier states.

The contexts of all steps are computed at once from a single masked weight matrix of shape (T, T).
In incremental decoding, the same code continues from a `State`, whose `memory` contains the earlier
states of the LSTM.

Content-based attention scores the states themselves (Dagan 2019, Eq. 1, 2, 4; Salton et al. 2017).
The score W_2 tanh(W_1 h_i) of a state does not depend on the attending step. Therefore, all steps
share one row of scores, and each step applies its own mask.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.recurrent.positional import PositionGenerator, gaussian_weights

State = dict[str, Tensor]  # batch-first tensors, so that beam search can reorder them


class StateAttention(nn.Module):
    """Maps h_1 ... h_t to tanh(W [c_t ; h_t]); subclasses compute the weights for c_t."""

    def __init__(self, width: int, include_current: bool = True):
        super().__init__()
        self.include_current = include_current
        self.combine = nn.Linear(2 * width, width)

    def forward(
        self, h: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, Tensor, State]:
        """Return the combined states, the attention weights, and the state for the next steps.

        The shapes are (B, Q, C) for the combined states and (B, Q, K) for the weights.

        h: the states of the LSTM, of shape (B, Q, C).
        lengths: the length N of each sentence, of shape (B,).
        state: the state that was returned for the previous steps.
        """
        past = 0 if state is None else state["memory"].size(1)
        memory = h if state is None else torch.cat([state["memory"], h], dim=1)  # B K C
        keys = torch.arange(memory.size(1), device=h.device)
        steps = keys[past:, None]
        allowed = keys <= steps if self.include_current else keys < steps  # Q K
        weights, state = self.weigh(h, lengths, keys, allowed, state)
        context = torch.bmm(weights.type_as(h), memory)  # Eq. 2: B Q C
        combined = torch.tanh(self.combine(torch.cat([context, h], dim=-1)))
        return combined, weights, {**state, "memory": memory}

    def weigh(
        self, h: Tensor, lengths: Tensor, keys: Tensor, allowed: Tensor, state: State | None
    ) -> tuple[Tensor, State]:
        """Return the weights, of shape (B, Q, K), and the subclass's state for the next steps.

        keys: the indices of the steps, starting at 0, of shape (K,).
        allowed: mask of the steps to which each step may attend, of shape (Q, K).
        """
        raise NotImplementedError


class ContentScore(nn.Module):
    """A two-layer network that scores each state (Eq. 4)."""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(width, width)  # W_1
        self.outer = nn.Linear(width, 1)  # W_2
        for layer in (self.inner, self.outer):  # as in the authors' code
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, h: Tensor) -> Tensor:
        """Return the scores, of shape (B, K), of the states h, of shape (B, K, C)."""
        scores: Tensor = self.outer(self.inner(h).tanh())  # B K 1
        return scores.squeeze(-1)


class ContentAttention(StateAttention):
    """Attention that depends on the contents of the states (Eq. 1, 2 and 4).

    Example:

        combined, weights, state = ContentAttention(width)(h, lengths)
    """

    def __init__(self, width: int, include_current: bool = True):
        super().__init__(width, include_current)
        self.score = ContentScore(width)

    def weigh(
        self, h: Tensor, lengths: Tensor, keys: Tensor, allowed: Tensor, state: State | None
    ) -> tuple[Tensor, State]:
        scores = self.score(h)
        if state is not None:
            scores = torch.cat([state["scores"], scores], dim=1)  # B K
        return softmax_weights(at_least_float32(scores[:, None]), allowed), {"scores": scores}


class PositionalAttention(StateAttention):
    """Attention that depends on the positions of the states (Eq. 5 to 12).

    Example:

        combined, weights, state = PositionalAttention(width)(h, lengths)
    """

    def __init__(
        self,
        width: int,
        include_current: bool = True,
        hidden: int = 20,
        clamp: str = "equation",
        floor: float = 0.0,
        epsilon: float = 1e-3,
    ):
        super().__init__(width, include_current)
        self.generator = PositionGenerator(width, hidden, clamp, floor)
        self.epsilon = epsilon

    def weigh(
        self, h: Tensor, lengths: Tensor, keys: Tensor, allowed: Tensor, state: State | None
    ) -> tuple[Tensor, State]:
        mu, sigma, state = self.generator(h, lengths, state)
        positions = keys.to(mu) / lengths.to(mu)[:, None]  # Eq. 12: B K
        return gaussian_weights(mu, sigma, positions, allowed, self.epsilon), state
