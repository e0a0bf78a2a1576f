"""Training criteria, registered with fairseq."""
