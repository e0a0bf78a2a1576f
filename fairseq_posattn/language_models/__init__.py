"""Recurrent language models with positional attention (Dagan 2019)."""
