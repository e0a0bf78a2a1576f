"""This module has the tree providers under the name that docs/your_own.md shows."""

from fairseq_posattn.live.providers import PROVIDERS, TreeProvider, register
from fairseq_posattn.live.segmented import SegmentedLine
from fairseq_posattn.trees import Sentence

__all__ = ["PROVIDERS", "SegmentedLine", "Sentence", "TreeProvider", "register"]
