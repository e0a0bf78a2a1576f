"""This package reads and writes whole files, locks them, and checks what was read."""
