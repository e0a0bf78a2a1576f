"""This module has the positions under the name that docs/your_own.md shows."""

from fairseq_posattn.core.positions import *  # noqa: F403
