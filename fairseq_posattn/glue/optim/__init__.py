"""This package holds the optimisers that the plug-in registers with fairseq."""
