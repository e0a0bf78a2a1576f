"""This package holds the fairseq datasets that carry trees or tags."""
