"""What goes wrong with a checkpoint."""

from fairseq_posattn.errors import InputError


class CheckpointError(InputError):
    """A checkpoint that cannot be loaded, or must not be written."""
