"""The models under the names that the README shows; fairseq scans a folder of this name."""
