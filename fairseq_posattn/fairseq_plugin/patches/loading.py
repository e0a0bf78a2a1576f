"""Fix how fairseq loads data: terminate its worker processes, and support numpy 2."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from fairseq_posattn.fairseq_plugin.patches.patch import stand_in


def ending_workers(run, self) -> None:
    """Wrapper for BackgroundConsumer.run that ends the worker processes after an epoch is loaded.

    fairseq starts new workers for each epoch and each validation, and keeps the old ones until
    Python garbage-collects them. torch then waits five seconds for each worker.
    """
    run(self)
    if getattr(self._source, "_iterator", None) is not None:  # a torch DataLoader
        self._source._iterator = None


def with_compat(module: ModuleType) -> ModuleType:
    """Return a replacement for the numpy module that provides `compat.long`.

    With --sample-break-mode eos, two of fairseq's datasets use this attribute, which numpy 2 lacks.
    The numpy module itself is not changed.
    """
    if hasattr(module, "compat"):
        return module
    return stand_in(module, compat=SimpleNamespace(long=int))
