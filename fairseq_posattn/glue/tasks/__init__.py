"""This package holds the tasks that the plug-in registers with fairseq."""
