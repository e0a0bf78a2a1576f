"""One parse, from a text to its CoNLL-U file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fairseq_posattn.parsing import work as parts
from fairseq_posattn.parsing.executors import Cluster, run
from fairseq_posattn.parsing.parsers import ParserSettings
from fairseq_posattn.parsing.work import Work

SHOWN_NOTES = 20
SECONDS_BETWEEN_LINES = 10


def parse(
    text: str,
    out: str,
    settings: ParserSettings,
    cluster: Cluster,
    shard_lines: int = 2000,
    trees: str | None = None,
    keep_parts: bool = False,
) -> None:
    """Parse what is not yet parsed; when all is, join and check it."""
    with parts.locked(parts.parts_folder(out)):
        work = parts.plan(text, out, settings, shard_lines, trees)
        progress = Progress(work)
        if work.pending() and not run(work, cluster, progress.shard_done):
            say(
                f"submitted: {len(work.pending())} of {len(work.shards)} shards are to be parsed, "
                f"{out} is then joined; the same command goes on if some fail"
            )
            return
        notes = parts.join(work)
        report(notes, text)
        say(f"{out}: {work.lines} lines, {work.lines} trees, checked against {text}")
        if not keep_parts:
            parts.remove(work)


class Progress:
    """A line with sentences per second and time left, on a terminal or in a log."""

    def __init__(self, work: Work):
        self.work = work
        self.before = self.done = self.lines_done()
        self.began = self.said = time.monotonic()
        self.alive = sys.stderr.isatty()
        if self.before:
            say(f"{self.before} of {work.lines} lines were parsed before")

    def shard_done(self, k: int) -> None:
        self.done = self.lines_done()
        now = time.monotonic()
        if self.alive or now - self.said > SECONDS_BETWEEN_LINES or self.done == self.work.lines:
            self.said = now
            self.show(now - self.began)

    def lines_done(self) -> int:
        """By the files: a worker may be killed after it finished a shard, before it says so."""
        pending = self.work.pending()
        return self.work.lines - sum(self.work.shards[k].lines for k in pending)

    def show(self, seconds: float) -> None:
        speed = (self.done - self.before) / max(seconds, 1e-9)
        left = (self.work.lines - self.done) / max(speed, 1e-9)
        line = (
            f"{self.done:,} of {self.work.lines:,} lines ({self.done / self.work.lines:.0%}), "
            f"{speed:.1f} sentences/s, {clock(left)} left"
        )
        end = "\r" if self.alive and self.done < self.work.lines else "\n"
        print(f"{line:<78}", end=end, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def report(notes: list, text: str) -> None:
    for number, note in notes[:SHOWN_NOTES]:
        say(f"{Path(text)}:{number}: {note}")
    if len(notes) > SHOWN_NOTES:
        say(f"and {len(notes) - SHOWN_NOTES} more such lines, marked by '# note = ' in the result")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
