"""The language models of Dagan (2019): LSTMs that attend to their previous states.

The contexts of all steps are computed at once from a single masked weight matrix of shape (T, T).
In incremental decoding, the same code continues from a `State`, whose `memory` contains the earlier
states of the LSTM.

Content-based attention scores the states themselves (Dagan 2019, Eq. 1, 2, 4; Salton et al. 2017).
The score W_2 tanh(W_1 h_i) of a state does not depend on the attending step. Therefore, all steps
share one row of scores, and each step applies its own mask.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.attention.kernels import softmax_weights
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.recurrent import PositionGenerator, gaussian_weights

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


ATTENTIONS = ("none", "content", "positional")
START_RANGE = 0.1  # the embedding is initialised uniformly between -0.1 and 0.1


@dataclass(frozen=True)
class RecurrentShape:
    """The sizes and settings of a language model.

    The embeddings and the LSTM have the same width, because input and output embeddings are tied.
    """

    vocabulary: int
    padding: int
    width: int = 400
    layers: int = 2
    attention: str = "positional"
    input_dropout: float = 0.5
    layer_dropout: float = 0.2
    output_dropout: float = 0.5
    include_current: bool = True
    position_width: int = 20
    clamp: str = "equation"
    sigma_floor: float = 0.0
    epsilon: float = 1e-3


class RecurrentLanguageModel(nn.Module):
    """Computes features of tokens, and scores of the next tokens from these features.

    Example:

        features, weights, state = model.features(tokens, lengths)
        scores = model.scores(features)
    """

    def __init__(self, shape: RecurrentShape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width, shape.padding)
        between = shape.layer_dropout if shape.layers > 1 else 0.0
        self.lstm = nn.LSTM(
            shape.width, shape.width, shape.layers, batch_first=True, dropout=between
        )
        self.attention = build_attention(shape)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))
        nn.init.uniform_(self.embedding.weight, -START_RANGE, START_RANGE)
        with torch.no_grad():
            self.embedding.weight[shape.padding].zero_()

    def features(
        self, tokens: Tensor, lengths: Tensor, state: State | None = None
    ) -> tuple[Tensor, Tensor | None, State]:
        """Return the features, the attention weights, and the state for the next tokens.

        The shapes are (B, T, C) for the features and (B, T, K) for the weights, which are None if
        the model has no attention.

        tokens: tensor of shape (B, T), padded on the right.
        lengths: the length N of each sentence, of shape (B,).
        state: the state that was returned for the previous tokens.
        """
        x = self.dropout(self.embedding(tokens), self.shape.input_dropout)
        h, state_of_lstm = self.run_lstm(x, state)
        weights, attended = None, {}
        if self.attention is not None:
            h, weights, attended = self.attention(h, lengths, after(state, "attention."))
        state = {f"attention.{name}": tensor for name, tensor in attended.items()}
        return self.dropout(h, self.shape.output_dropout), weights, {**state_of_lstm, **state}

    def run_lstm(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return the outputs of the LSTM, of shape (B, T, C), and its state for the next steps."""
        if state is None:
            h, (hidden, cell) = self.lstm(x)
        else:
            past = [
                state[f"lstm.{part}"].transpose(0, 1).contiguous() for part in ("hidden", "cell")
            ]
            h, (hidden, cell) = self.lstm(x, tuple(past))  # layers B C each
        return h, {"lstm.hidden": hidden.transpose(0, 1), "lstm.cell": cell.transpose(0, 1)}

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of all words in the vocabulary, of shape (B, T, vocabulary)."""
        return F.linear(features, self.embedding.weight, self.bias)

    def dropout(self, x: Tensor, probability: float) -> Tensor:
        return F.dropout(x, probability, training=self.training)


def build_attention(shape: RecurrentShape) -> StateAttention | None:
    """Return the attention layer for these settings, or None for an LSTM without attention."""
    if shape.attention == "content":
        return ContentAttention(shape.width, shape.include_current)
    if shape.attention == "positional":
        return PositionalAttention(
            shape.width,
            shape.include_current,
            shape.position_width,
            shape.clamp,
            shape.sigma_floor,
            shape.epsilon,
        )
    if shape.attention != "none":
        raise ValueError(
            f"unknown attention {shape.attention!r}; choose from {', '.join(ATTENTIONS)}"
        )
    return None


def after(state: State | None, prefix: str) -> State | None:
    """Select the entries of a state whose names start with a prefix, and remove the prefix."""
    if state is None:
        return None
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
