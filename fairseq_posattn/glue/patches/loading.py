"""Fix how fairseq loads data: terminate its worker processes, support numpy 2, and prefetch input.

If the parser tokenises the text, all lines of a buffer must be tokenised before the first batch is
made. Therefore fairseq-interactive tokenises the next buffer while it translates the current one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from queue import Queue
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

from fairseq_posattn.glue.patches.patch import stand_in


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


Lines = list[str]
AT_ONCE = "reads_at_once"  # the attribute of a wrapper that stores the original function


def prepare_ahead(prepare: Callable[[Lines], None] | None) -> None:
    """Let fairseq-interactive, if it is running, prefetch lines and call `prepare` on them.

    prepare: if None, prefetching is turned off.
    """
    for name in ("__main__", "fairseq_cli.interactive"):
        module: Any = sys.modules.get(name)
        read = getattr(module, "buffered_read", None)
        if read is not None:
            read = vars(read).get(AT_ONCE, read)  # remove the wrapper of an earlier call
            module.buffered_read = read if prepare is None else reading_ahead(read, prepare)


def reading_ahead(buffered_read, prepare: Callable[[Lines], None]):
    """Return a wrapper for fairseq_cli.interactive.buffered_read that prefetches one buffer.

    If a buffer contains only one line, as in interactive use, nothing is prefetched.
    """

    @functools.wraps(buffered_read)
    def read(input: str, buffer_size: int) -> Iterator[Lines]:
        buffers = buffered_read(input, buffer_size)
        return ahead(buffers, prepare) if buffer_size > 1 else buffers

    vars(read)[AT_ONCE] = buffered_read
    return read


def ahead(buffers: Iterator[Lines], prepare: Callable[[Lines], None]) -> Iterator[Lines]:
    """Yield buffers while another thread reads and prepares the next buffer."""
    ready: Queue[Lines | BaseException | None] = Queue(maxsize=1)

    def fill() -> None:
        try:
            for lines in buffers:
                prepare(lines)
                ready.put(lines)
            ready.put(None)
        except BaseException as error:
            ready.put(error)

    Thread(target=fill, daemon=True).start()
    while (found := ready.get()) is not None:
        if isinstance(found, BaseException):
            raise found
        yield found
