"""fairseq tasks."""
