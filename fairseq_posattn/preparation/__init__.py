"""This package holds the steps from a corpus to a data directory."""
