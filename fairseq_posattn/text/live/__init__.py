"""Pieces and trees for new text during translation."""
