"""fairseq tasks."""

from fairseq_posattn import plugin  # noqa: F401  (one of them alone would miss the others)
