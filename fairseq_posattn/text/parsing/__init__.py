"""This package parses text into trees, for corpora of any size."""
