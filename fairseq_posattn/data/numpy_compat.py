"""numpy 2 has no `numpy.compat`, whose `long` two of fairseq's datasets still ask for.

`--sample-break-mode eos` fails without it. Only those two modules get it, not numpy itself.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy
from fairseq.data import language_pair_dataset, token_block_dataset


class NumpyWithCompat(ModuleType):
    """numpy, and what it lacks."""

    compat = SimpleNamespace(long=int)

    def __getattr__(self, name: str):
        return getattr(numpy, name)


def install() -> None:
    """Where numpy has it there is nothing to do."""
    if hasattr(numpy, "compat"):
        return
    for module in (language_pair_dataset, token_block_dataset):
        module.np = NumpyWithCompat("numpy")
