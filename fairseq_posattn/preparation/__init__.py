"""The steps from a corpus to a data folder."""
