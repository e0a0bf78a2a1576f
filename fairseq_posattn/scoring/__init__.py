"""Score translations, read fairseq's logs, and export attention weights."""
