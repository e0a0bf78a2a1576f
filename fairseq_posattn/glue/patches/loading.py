"""End the processes that load data as soon as they have loaded an epoch."""

from __future__ import annotations

import functools


def ending_workers(run):
    """Wrap BackgroundConsumer.run, which loads an epoch, so that its processes end with it.

    fairseq makes new ones for each epoch and each validation, and keeps the old ones until Python
    happens to collect them; torch then waits for five seconds for each.
    """

    @functools.wraps(run)
    def run_and_end(self) -> None:
        run(self)
        if getattr(self._source, "_iterator", None) is not None:  # that of a torch DataLoader
            self._source._iterator = None

    return run_and_end
