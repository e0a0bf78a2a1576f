"""The installed commands, one module each."""
