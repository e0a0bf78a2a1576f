"""Probe the sentence vectors, word vectors and attention heads of trained encoders."""
