"""Short name of `fairseq_posattn.core.attention`; docs/plain_pytorch.md shows how to use it."""

from fairseq_posattn.core.attention import *  # noqa: F403
