"""Provide the pieces and trees of new text during translation."""
