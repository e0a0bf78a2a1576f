"""This package has the models under the names that documents show; fairseq scans this folder."""
