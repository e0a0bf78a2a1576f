"""This package reads tagged sentences and makes the dictionaries of part-of-speech taggers."""
