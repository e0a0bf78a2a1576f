"""Split raw text into subword units, and parse it."""
