"""Attention core: torch only, knows nothing of fairseq."""

from fairseq_posattn.attention.context import AttentionContext
from fairseq_posattn.attention.mechanism import AttentionShape, Mechanism, ScoreBias, ValueTerm
from fairseq_posattn.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.attention.pipeline import attend
from fairseq_posattn.attention.registry import MECHANISMS, AttentionSpecification, register

__all__ = [
    "MECHANISMS",
    "AttentionContext",
    "AttentionShape",
    "AttentionSpecification",
    "Mechanism",
    "MultiheadSelfAttention",
    "ScoreBias",
    "ValueTerm",
    "attend",
    "register",
]
