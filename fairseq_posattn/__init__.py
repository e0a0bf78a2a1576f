"""Position information and attention mechanisms for neural machine translation with fairseq.

`fairseq-train --user-dir fairseq_posattn` imports this package and registers its tasks and models.
The parts `attention`, `positions` (torch) and `trees` (numpy) work without fairseq, so nothing is
registered unless fairseq is there already.
"""

import sys

__version__ = "0.1.0"

if "fairseq" in sys.modules:
    from fairseq_posattn import plugin  # noqa: F401
