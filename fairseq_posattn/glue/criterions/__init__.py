"""This package holds the training criteria that the plug-in registers with fairseq."""
