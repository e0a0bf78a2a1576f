"""Attention over the states of an LSTM (Dagan 2019); this package requires only torch."""

from fairseq_posattn.core.recurrent.attention import ContentAttention, PositionalAttention
from fairseq_posattn.core.recurrent.language_model import RecurrentLanguageModel, RecurrentShape
from fairseq_posattn.core.recurrent.positional import PositionGenerator, gaussian_weights

__all__ = [
    "ContentAttention",
    "PositionGenerator",
    "PositionalAttention",
    "RecurrentLanguageModel",
    "RecurrentShape",
    "gaussian_weights",
]
