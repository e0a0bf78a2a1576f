"""Compute evaluation scores of translations, and read the texts to score."""
