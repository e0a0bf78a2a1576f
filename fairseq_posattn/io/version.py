"""The version of this package; it imports nothing, so that every room can name it."""

__version__ = "0.2.0"
