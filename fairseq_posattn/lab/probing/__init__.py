"""Probe what the encoder of a model knows: sentence vectors, words, and attention heads."""
