"""Mend two places where fairseq loads data: processes that stay, and what numpy 2 lacks."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from fairseq_posattn.glue.patches.patch import stand_in


def ending_workers(run, self) -> None:
    """Wrap BackgroundConsumer.run, which loads an epoch, so that its processes end with it.

    fairseq makes new ones for each epoch and each validation, and keeps the old ones until Python
    happens to collect them; torch then waits for five seconds for each.
    """
    run(self)
    if getattr(self._source, "_iterator", None) is not None:  # that of a torch DataLoader
        self._source._iterator = None


def with_compat(module: ModuleType) -> ModuleType:
    """Return numpy with the part that numpy 2 lacks but whose `long` two of fairseq's datasets use
    with --sample-break-mode eos; numpy itself does not change."""
    if hasattr(module, "compat"):
        return module
    return stand_in(module, compat=SimpleNamespace(long=int))
