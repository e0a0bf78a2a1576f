"""Position information and attention mechanisms for neural machine translation with fairseq.

`fairseq-train --user-dir fairseq_posattn` imports this package and registers its tasks and models.
The rooms `core` (torch) and `trees` (numpy) work without fairseq, so nothing is
registered unless fairseq is there already.
"""

import sys

from fairseq_posattn.io.version import __version__ as __version__

if "fairseq" in sys.modules:
    from fairseq_posattn import plugin  # noqa: F401
