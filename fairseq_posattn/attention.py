"""Attention layers and mechanisms; docs/python.md explains how to use them."""

from fairseq_posattn.core.attention import *  # noqa: F403
