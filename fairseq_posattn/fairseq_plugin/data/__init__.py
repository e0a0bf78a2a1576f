"""fairseq datasets with trees or tags."""
