"""The attention core, under the name that the README shows."""

from fairseq_posattn.core.attention import *  # noqa: F403
