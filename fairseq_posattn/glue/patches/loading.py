"""Mend how fairseq loads data: processes that stay, what numpy 2 lacks, lines that come late.

Where pieces are made of a parser's words, all lines of a buffer must be tokenised before the first
batch of it can be made. Read ahead by fairseq-interactive, they are tokenised while the buffer
before is translated.
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


Lines = list[str]
AT_ONCE = "reads_at_once"  # the attribute in which a function that reads ahead keeps the other


def prepare_ahead(prepare: Callable[[Lines], None] | None) -> None:
    """Let the running fairseq-interactive, if there is one, prepare lines before it translates
    them; None: it reads no lines ahead."""
    for name in ("__main__", "fairseq_cli.interactive"):
        module: Any = sys.modules.get(name)
        read = getattr(module, "buffered_read", None)
        if read is not None:
            read = vars(read).get(AT_ONCE, read)  # of an earlier program in this process
            module.buffered_read = read if prepare is None else reading_ahead(read, prepare)


def reading_ahead(buffered_read, prepare: Callable[[Lines], None]):
    """Wrap fairseq_cli.interactive.buffered_read to read and prepare a buffer ahead.

    A person who types one line after the other gets each translation at once, as before.
    """

    @functools.wraps(buffered_read)
    def read(input: str, buffer_size: int) -> Iterator[Lines]:
        buffers = buffered_read(input, buffer_size)
        return ahead(buffers, prepare) if buffer_size > 1 else buffers

    vars(read)[AT_ONCE] = buffered_read
    return read


def ahead(buffers: Iterator[Lines], prepare: Callable[[Lines], None]) -> Iterator[Lines]:
    """Yield buffers, the next one of which is read and prepared meanwhile, by another thread."""
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
