"""What goes wrong with a checkpoint."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be loaded, or must not be written."""
