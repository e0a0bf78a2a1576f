"""Attention, positions and other tensor code; it depends on torch, but not on fairseq."""
