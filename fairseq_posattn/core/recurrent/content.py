"""A step of an LSTM may look at some states only, and its softmax is taken over those.

Attention to contents scores the states themselves (Dagan 2019, Eq. 1, 2, 4; Salton et al. 2017).
The score W_2 tanh(W_1 h_i) of a state does not depend on the step that looks at it, so one row
of scores serves all steps: each takes its own part of the row.
"""

from __future__ import annotations

from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the softmax over the allowed keys, in float32 at least; an empty row gives zeros."""
    return softmax_weights(at_least_float32(scores), allowed)


def past_states(queries: Tensor, keys: Tensor, include_current: bool = True) -> Tensor:
    """Tell which of the steps `keys` (K) each of the steps `queries` (Q) may look at, Q K."""
    if include_current:
        return keys[None, :] <= queries[:, None]
    return keys[None, :] < queries[:, None]


class ContentScore(nn.Module):
    """This small network gives each state a score (Eq. 4)."""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(width, width)  # W_1
        self.outer = nn.Linear(width, 1)  # W_2
        for layer in (self.inner, self.outer):  # as in the authors' program
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, h: Tensor) -> Tensor:
        """Return the score of each state, B K, of h, B K C."""
        scores: Tensor = self.outer(self.inner(h).tanh())  # B K 1
        return scores.squeeze(-1)


def content_weights(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return a running softmax, B Q K in float32 at least (Eq. 1).

    scores: B K; allowed: bool, broadcastable to B Q K. An empty row gives zeros.
    """
    return masked_softmax(scores[:, None, :], allowed)
