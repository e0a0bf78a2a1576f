"""This is the attention core under a short name; docs/plain_pytorch.md shows how to use it."""

from fairseq_posattn.core.attention import *  # noqa: F403
