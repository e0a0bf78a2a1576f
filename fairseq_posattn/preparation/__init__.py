"""The steps that convert a corpus to a data folder."""
