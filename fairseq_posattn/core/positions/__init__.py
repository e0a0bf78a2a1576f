"""Absolute positions in the sequence and in the tree: torch only, knows nothing of fairseq."""

from fairseq_posattn.core.positions.sinusoid import sinusoid
from fairseq_posattn.core.positions.tree import SourceTree

__all__ = ["SourceTree", "sinusoid"]
