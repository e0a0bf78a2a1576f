"""Add position information and attention mechanisms to fairseq's translation models.

`fairseq-train --user-dir fairseq_posattn` imports this package and registers its tasks and models.
The packages `core` (torch) and `trees` (numpy) also work without fairseq, so this import registers
nothing unless fairseq has been imported before.
"""

import sys

from fairseq_posattn.io.version import __version__ as __version__

if sys.modules.get("fairseq") is not None:
    from fairseq_posattn import plugin  # noqa: F401
