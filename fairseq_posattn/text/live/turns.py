"""Threads take turns; some of them give way to the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """One thread is at work at a time; one that gives way waits until no other one wants a turn."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken = False
        self.waiting = 0  # threads that give no way
        self.own = threading.local()

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let this thread give way in the turns that it takes in the `with` block."""
        self.own.gives_way = True
        try:
            yield
        finally:
            self.own.gives_way = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a turn, which ends with the `with` block."""
        gives_way = getattr(self.own, "gives_way", False)
        with self.changed:
            self.waiting += not gives_way
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: not self.taken and not (gives_way and self.waiting))
            finally:
                self.waiting -= not gives_way
            self.taken = True
        try:
            yield
        finally:
            with self.changed:
                self.taken = False
                self.changed.notify_all()
