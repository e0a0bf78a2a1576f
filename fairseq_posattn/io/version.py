"""This module says the version; it imports nothing, so that every other module can import it."""

__version__ = "0.3.0"
