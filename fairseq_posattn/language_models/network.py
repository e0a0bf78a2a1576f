"""The language models of Dagan (2019): LSTMs that attend to their previous states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.language_models.attention import (
    ContentAttention,
    PositionalAttention,
    State,
    StateAttention,
)

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
