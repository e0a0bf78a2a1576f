"""Errors that a user can mend are of this class: a command prints one line and exits with 1."""


class InputError(ValueError):
    """This error says that an input cannot be right: what was found, where, and what to do."""
