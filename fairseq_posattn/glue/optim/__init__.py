"""Optimizers, registered with fairseq."""
