"""Show progress with tqdm: in place on a terminal, and line by line in a log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

from fairseq_posattn.files.terminal import visible


class LogLines:
    """A stream for tqdm that writes every update on a line of its own."""

    def __init__(self, out: TextIO):
        self.out = out

    def write(self, text: str) -> None:
        if line := text.strip():
            self.out.write(f"{line}\n")

    def flush(self) -> None:
        self.out.flush()


class Progress(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A progress bar; in a log, at most one line every `seconds` seconds.

    done: number of items that an earlier run completed.
    unit: plural name of the items.
    """

    monitor_interval = 0  # start no thread

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        total: int | None = None,
        done: int = 0,
        unit: str = "sentences",
        seconds: float = 10,
        **options: Any,
    ):
        if not sys.stderr.isatty():
            options = {
                "delay": seconds,
                **options,
                "file": LogLines(sys.stderr),
                "mininterval": seconds,
                "position": 0,
            }
        options = {"leave": None, **options}  # a nested bar disappears
        super().__init__(items, total=total, initial=done, unit=f" {unit}", **options)

    def show(self, done: int) -> None:
        self.update(done - self.n)


class ProgressDisplay:
    """A thread-safe progress display with one line per active run of a recipe.

    On a terminal, each line is updated in place. In a log file, for example on a cluster, a line is
    written when a run starts a new step, and otherwise at most once per minute.
    """

    def __init__(self, seconds: float = 60):
        self.seconds = seconds
        self.bars: dict[str, Progress] = {}
        self.turn = threading.Lock()

    def show(self, name: str, text: str, new: bool = False) -> None:
        """Update the progress line of a run.

        new: whether the run starts a new step; new steps are written to log files immediately.
        """
        line = visible(f"{name}: {text}")
        with self.turn:
            bar = self.bars.get(name)
            if bar is not None:
                bar.set_description_str(line, refresh=new)
                bar.update(0)
                return
            # without a bar, here {bar:0}, tqdm does not cut the line at the edge of the terminal
            looks: dict[str, Any] = {"bar_format": "{desc}{bar:0}", "dynamic_ncols": True}
            self.bars[name] = Progress(
                seconds=self.seconds, desc=line, delay=0, leave=False, **looks
            )

    def finish(self, name: str, text: str = "") -> None:
        """Remove the progress line of a run; print `text`, if any, above the remaining lines."""
        with self.turn:
            if name in self.bars:
                self.bars.pop(name).close()
            if text:
                tqdm.write(visible(f"{name}: {text}"), file=sys.stderr)
