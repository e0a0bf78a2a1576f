"""This package computes the scores of translations, and reads the texts that are scored."""
