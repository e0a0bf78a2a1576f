"""Score translations, read fairseq's logs, and write score tables."""
