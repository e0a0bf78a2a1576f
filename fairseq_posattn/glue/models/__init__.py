"""fairseq models: thin glue around the attention core."""
