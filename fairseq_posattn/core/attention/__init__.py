"""Attention core: torch only, knows nothing of fairseq."""

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    FastPath,
    KeyExpansion,
    Mechanism,
    PostAttention,
    PreAttention,
    QKVTransform,
    ScoreBias,
    ScoreChange,
    ScoreMask,
    ValueTerm,
    WeightChange,
)
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.pipeline import attend
from fairseq_posattn.core.attention.registry import MECHANISMS, AttentionSpecification, register

__all__ = [
    "MECHANISMS",
    "AttentionContext",
    "AttentionShape",
    "AttentionSpecification",
    "FastPath",
    "KeyExpansion",
    "Mechanism",
    "MultiheadSelfAttention",
    "PostAttention",
    "PreAttention",
    "QKVTransform",
    "ScoreBias",
    "ScoreChange",
    "ScoreMask",
    "ValueTerm",
    "WeightChange",
    "attend",
    "register",
]
