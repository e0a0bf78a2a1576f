"""Add position information and attention mechanisms to fairseq's translation models.

`fairseq-train --user-dir fairseq_posattn` imports this package and registers its tasks and models.
The packages `core` (which requires torch) and `trees` (which requires numpy) also work without
fairseq. Therefore, nothing is registered unless fairseq has already been imported.
"""

import sys

from fairseq_posattn.files.version import __version__ as __version__

if sys.modules.get("fairseq") is not None:
    from fairseq_posattn import plugin  # noqa: F401
