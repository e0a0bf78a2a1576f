"""Give two of fairseq's datasets numpy.compat, which numpy 2 lacks but whose `long` they still use.

`--sample-break-mode eos` fails without it. Only those two modules get it; numpy itself does not
change.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy


class NumpyWithCompat(ModuleType):
    """Behaves as numpy, with the part that numpy 2 lacks."""

    compat = SimpleNamespace(long=int)

    def __getattr__(self, name: str):
        return getattr(numpy, name)


def with_compat(module: ModuleType) -> ModuleType:
    """Return numpy itself where it has `compat`, else a stand-in that has it."""
    return module if hasattr(module, "compat") else NumpyWithCompat("numpy")
