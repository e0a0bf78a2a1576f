"""fairseq datasets with trees."""
