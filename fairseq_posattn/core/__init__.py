"""Attention, positions and other tensor code, which depends on torch but not on fairseq."""
