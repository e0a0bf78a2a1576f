"""This package reads the logs that fairseq's programs write."""
