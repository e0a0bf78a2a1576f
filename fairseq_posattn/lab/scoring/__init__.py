"""Score translations, read the logs of fairseq, and export attention weights."""
