"""Let fairseq-interactive read its next lines while it translates.

Where pieces are made of a parser's words, all lines of a buffer must be tokenised before the first
batch of it can be made. Read ahead, they are tokenised while the buffer before is translated.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from queue import Queue
from threading import Thread

from fairseq_posattn.glue.patches.patch import Patch

Lines = list[str]
wanted: list[Callable[[Lines], None]] = []  # what the next program does with lines read ahead


def prepare_ahead(prepare: Callable[[Lines], None] | None) -> None:
    """Let the running fairseq-interactive, if there is one, prepare lines before it translates
    them; None: it reads no lines ahead."""
    wanted.clear()
    if prepare is None:
        return
    for name in ("__main__", "fairseq_cli.interactive"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "buffered_read"):
            patch(module).install()
            wanted[:] = [prepare]


def patch(program: object) -> Patch:
    """Return the patch of a program, which is fairseq-interactive."""
    return Patch(
        program,
        "buffered_read",
        reading_ahead,
        "The translation waits while the lines of the next buffer are tokenised.",
        "fairseq-fixed 0.12.3.1",
        "fairseq reads ahead",
    )


def reading_ahead(buffered_read):
    """Wrap fairseq_cli.interactive.buffered_read to read a buffer ahead, if anything prepares it.

    A person who types one line after the other gets each translation at once, as before.
    """

    @functools.wraps(buffered_read)
    def read(input: str, buffer_size: int) -> Iterator[Lines]:
        buffers = buffered_read(input, buffer_size)
        if buffer_size > 1 and wanted:
            return ahead(buffers, wanted.pop())
        wanted.clear()
        return buffers

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
