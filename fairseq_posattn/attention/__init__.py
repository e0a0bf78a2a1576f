"""Attention core: torch only, knows nothing of fairseq."""

from fairseq_posattn.attention.context import AttentionContext
from fairseq_posattn.attention.mechanism import (
    AttentionReplacement,
    AttentionShape,
    KeyExpansion,
    Mechanism,
    QKVTransform,
    ScoreBias,
    ScoreChange,
    ScoreMask,
    Shortcut,
    SubLayer,
    ValueTerm,
    WeightChange,
)
from fairseq_posattn.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.attention.pipeline import attend
from fairseq_posattn.attention.registry import MECHANISMS, AttentionSpecification, register

__all__ = [
    "MECHANISMS",
    "AttentionContext",
    "AttentionReplacement",
    "AttentionShape",
    "AttentionSpecification",
    "KeyExpansion",
    "Mechanism",
    "MultiheadSelfAttention",
    "QKVTransform",
    "ScoreBias",
    "ScoreChange",
    "ScoreMask",
    "Shortcut",
    "SubLayer",
    "ValueTerm",
    "WeightChange",
    "attend",
    "register",
]
