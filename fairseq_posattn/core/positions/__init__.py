"""Positions in the sequence and in the tree enter below the first layer; they need torch only."""

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.options import option
from fairseq_posattn.core.positions.joined import joined
from fairseq_posattn.core.positions.position import Position, PositionShape
from fairseq_posattn.core.positions.registry import POSITIONS, PositionSpecification, register
from fairseq_posattn.core.positions.sinusoid import sinusoid
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
