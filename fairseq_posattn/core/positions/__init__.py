"""Embeddings of positions in sequences and trees, for the input of the first layer.

This package requires only torch.
"""

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.positions.position import Position, PositionShape, sinusoid
from fairseq_posattn.core.positions.registry import (
    POSITIONS,
    PositionSpecification,
    joined,
    register,
)
from fairseq_posattn.core.source_tree import SourceTree

__all__ = [
    "POSITIONS",
    "AttentionContext",
    "Position",
    "PositionShape",
    "PositionSpecification",
    "SourceTree",
    "joined",
    "option",
    "register",
    "sinusoid",
]
