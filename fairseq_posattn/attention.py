"""The attention layers and mechanisms; docs/python.md shows how to use them."""

from fairseq_posattn.core.attention import *  # noqa: F403
