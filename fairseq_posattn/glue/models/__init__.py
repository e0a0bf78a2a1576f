"""This package holds the models that the plug-in registers with fairseq."""
