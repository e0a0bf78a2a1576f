"""Define the error that a checkpoint raises when it cannot be used."""

from fairseq_posattn.errors import InputError


class CheckpointError(InputError):
    """This error says that a checkpoint cannot be loaded or must not be written."""
