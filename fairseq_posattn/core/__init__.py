"""The tensor code: torch only, without fairseq."""
