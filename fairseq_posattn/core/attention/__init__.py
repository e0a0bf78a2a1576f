"""Attention layers, mechanisms and specifications; this package requires only torch."""

from fairseq_posattn.core.attention.build import (
    AttentionSpecification,
    CrossSpecification,
    build_self_attention,
)
from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.cross_context import CrossContext
from fairseq_posattn.core.attention.mechanism import (
    AttentionShape,
    Heads,
    Mechanism,
    NoOptions,
    at_least_float32,
)
from fairseq_posattn.core.attention.multihead import MultiheadSelfAttention
from fairseq_posattn.core.attention.pipeline import attend
from fairseq_posattn.core.attention.registry import MECHANISMS, describe, register
from fairseq_posattn.core.attention.stages import (
    FastPath,
    KeyBias,
    KeyExpansion,
    PostAttention,
    PreAttention,
    QKVTransform,
    ScoreBias,
    ScoreChange,
    ScoreMask,
    ValueTerm,
    WeightChange,
)
from fairseq_posattn.core.attention.supervised import Supervised
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.core.specification import SpecificationError

__all__ = [
    "MECHANISMS",
    "AttentionContext",
    "AttentionShape",
    "AttentionSpecification",
    "CrossContext",
    "CrossSpecification",
    "FastPath",
    "Heads",
    "KeyBias",
    "KeyExpansion",
    "Mechanism",
    "MultiheadSelfAttention",
    "NoOptions",
    "PostAttention",
    "PreAttention",
    "QKVTransform",
    "ScoreBias",
    "ScoreChange",
    "ScoreMask",
    "SourceTree",
    "SpecificationError",
    "Supervised",
    "ValueTerm",
    "WeightChange",
    "at_least_float32",
    "attend",
    "build_self_attention",
    "describe",
    "option",
    "register",
]
