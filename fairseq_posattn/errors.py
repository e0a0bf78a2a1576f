"""Errors that a user can mend; a command prints one line for each of them and exits with 1."""


class InputError(ValueError):
    """An input that cannot be right. The message says what was found, where, and what to do."""
