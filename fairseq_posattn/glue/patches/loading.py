"""Mend two places where fairseq loads data: processes that stay, and what numpy 2 lacks."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy


def ending_workers(run, self) -> None:
    """Wrap BackgroundConsumer.run, which loads an epoch, so that its processes end with it.

    fairseq makes new ones for each epoch and each validation, and keeps the old ones until Python
    happens to collect them; torch then waits for five seconds for each.
    """
    run(self)
    if getattr(self._source, "_iterator", None) is not None:  # that of a torch DataLoader
        self._source._iterator = None


class NumpyWithCompat(ModuleType):
    """Behaves as numpy, with the part that numpy 2 lacks but whose `long` two of fairseq's datasets
    use with --sample-break-mode eos; numpy itself does not change."""

    compat = SimpleNamespace(long=int)

    def __getattr__(self, name: str):
        return getattr(numpy, name)


def with_compat(module: ModuleType) -> ModuleType:
    """Return numpy itself where it has `compat`, else a stand-in that has it."""
    return module if hasattr(module, "compat") else NumpyWithCompat("numpy")
