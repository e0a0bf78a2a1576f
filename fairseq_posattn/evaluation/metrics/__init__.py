"""Scores of translations, and what they are computed from."""
