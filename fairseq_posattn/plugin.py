"""Importing this registers everything with fairseq."""

from fairseq_posattn import checkpoints
from fairseq_posattn.models import posattn_transformer, presets  # noqa: F401
from fairseq_posattn.tasks import structured_translation  # noqa: F401

checkpoints.install()
