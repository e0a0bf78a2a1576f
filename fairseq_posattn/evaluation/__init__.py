"""Scores of translations, and what is shown of them."""
