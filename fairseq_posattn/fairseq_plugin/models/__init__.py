"""Models that the plug-in registers with fairseq."""
