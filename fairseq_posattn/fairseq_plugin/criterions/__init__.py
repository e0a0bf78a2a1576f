"""Training criterions that the plug-in registers with fairseq."""
