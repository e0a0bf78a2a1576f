"""Data, models, training and evaluation of part-of-speech taggers."""
