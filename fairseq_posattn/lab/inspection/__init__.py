"""Inspect a trained model or a mechanism: attention weights, heads, examples and pictures."""

HEADS, SEED = 4, 2  # defaults of posattn show
