"""The version of the package; this module imports nothing, so any module can import it."""

__version__ = "0.3.0"
