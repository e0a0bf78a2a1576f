"""numpy 2 has no `numpy.compat`, whose `long` two of fairseq's datasets still ask for.

`--sample-break-mode eos` fails without it. Only those two modules get it, not numpy itself.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy


class NumpyWithCompat(ModuleType):
    """numpy, and what it lacks."""

    compat = SimpleNamespace(long=int)

    def __getattr__(self, name: str):
        return getattr(numpy, name)


def with_compat(module: ModuleType) -> ModuleType:
    """Return numpy itself where it has `compat`, else numpy and what it lacks."""
    return module if hasattr(module, "compat") else NumpyWithCompat("numpy")
