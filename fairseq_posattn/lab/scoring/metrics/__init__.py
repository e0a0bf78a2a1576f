"""Compute the scores of translations, and read the texts to score."""
