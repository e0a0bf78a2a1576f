"""Attention over the states of an LSTM; torch only."""

from fairseq_posattn.recurrent.attention import ContentAttention, PositionalAttention
from fairseq_posattn.recurrent.content import ContentScore, content_weights
from fairseq_posattn.recurrent.language_model import RecurrentLanguageModel, RecurrentShape
from fairseq_posattn.recurrent.masks import masked_softmax, past_states
from fairseq_posattn.recurrent.positional import PositionGenerator, gaussian_weights

__all__ = [
    "ContentAttention",
    "ContentScore",
    "PositionGenerator",
    "PositionalAttention",
    "RecurrentLanguageModel",
    "RecurrentShape",
    "content_weights",
    "gaussian_weights",
    "masked_softmax",
    "past_states",
]
