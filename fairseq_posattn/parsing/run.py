"""Run a parse from a text to its CoNLL-U file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.io.progress import say
from fairseq_posattn.parsing.cluster import Cluster
from fairseq_posattn.parsing.executors import run
from fairseq_posattn.parsing.join import join
from fairseq_posattn.parsing.plan import plan
from fairseq_posattn.parsing.results import Result, finished, is_made_by, place
from fairseq_posattn.parsing.sharded_parse import ShardedParse, parts_folder, remove, remove_rest
from fairseq_posattn.parsing.slurm_jobs import Jobs
from fairseq_posattn.text.parser_settings import ParserSettings

SHOWN_NOTES = 20
SECONDS_BETWEEN_LINES = 10
LONGEST_PAUSE = 30  # Slurm is asked again after this many seconds at most


def parse(
    text: str,
    out: str,
    settings: ParserSettings,
    cluster: Cluster,
    shard_lines: int = 2000,
    trees: str | None = None,
    keep_parts: bool = False,
    wait: bool = False,
) -> None:
    """Parse what is not parsed yet; when everything is, join and check it.

    Slurm goes on with the work after this function has returned, unless `wait` is set.
    """

    refuse_unwritable(Path(out))

    def attempt() -> ShardedParse | None:
        """Return the parse that Slurm works on, or None when the result is there."""
        with locked(out, wait=wait):
            remove_rest(parts_folder(out))
            result = finished(text, out, settings, trees)
            if result is None:
                work = plan(text, out, settings, shard_lines, trees)
                if work.pending() and not do(work, cluster, wait):
                    return work
                result = join(work)
            show(result, text, out)
            if is_made_by(result, parts_folder(out)):
                Jobs.of(parts_folder(out) / "logs").cancel_join()
                if not keep_parts:
                    remove(parts_folder(out))
        return None

    work = attempt()
    if work and wait:
        wait_for_slurm(work)
        attempt()


def do(work: ShardedParse, cluster: Cluster, wait: bool) -> bool:
    """Parse the shards that are not done, and return True, or False if Slurm does it."""
    progress, jobs = Progress(work), Jobs.of(work.logs)
    if wait and jobs.queued():
        say(f"this command waits for the Slurm jobs of an earlier run; {progress.shards()}")
        return False
    jobs.refuse_if_queued(progress.shards())
    for line in jobs.failures(work):
        say(line)
    if run(work, cluster, progress.shard_done):
        return True
    jobs = Jobs.of(work.logs)
    say(
        f"submitted: Slurm job {jobs.last.array} parses {len(work.pending())} of "
        f"{len(work.shards)} shards, and job {jobs.last.join} joins them; their logs are in "
        f"{jobs.logs}"
    )
    say(
        "this command waits for them; if it is interrupted, the same command waits again"
        if wait
        else "the same command says how far they are, and goes on if some fail"
    )
    return False


def wait_for_slurm(work: ShardedParse) -> None:
    """Wait until Slurm has none of the jobs any more; raise an error if a shard is not done."""
    progress, jobs, began = Progress(work), Jobs.of(work.logs), time.monotonic()
    while is_queued(jobs):
        time.sleep(min(LONGEST_PAUSE, 1 + (time.monotonic() - began) / 10))
        if progress.lines_done() != progress.done:
            progress.shard_done()
    if pending := work.pending():
        for line in jobs.failures(work):
            say(line)
        raise InputError(
            f"{len(pending)} of {len(work.shards)} shards failed (see {jobs.logs}); run the same "
            "command again, which goes on with them"
        )


def is_queued(jobs: Jobs) -> bool:
    """Return whether Slurm has one of the jobs; while it does not answer, assume that it has."""
    try:
        return bool(jobs.queued())
    except InputError as error:
        say(str(error))
        return True


def discard(out: str) -> None:
    """Remove the parts of a parse that will not go on, unless Slurm is working on them."""
    parts = parts_folder(out)
    if parts.exists():
        with locked(out):
            Jobs.of(parts / "logs").refuse_if_queued("they parse with other choices")
            remove(parts)


class Progress:
    """This class shows sentences per second and the time left, on a terminal or in a log."""

    def __init__(self, work: ShardedParse):
        self.work = work
        self.before = self.done = self.lines_done()
        self.began = self.said = time.monotonic()
        self.alive = sys.stderr.isatty()
        if self.before:
            say(f"{self.before} of {work.lines} lines were parsed before")

    def shards(self) -> str:
        """Say how many shards are done."""
        shards = len(self.work.shards)
        return f"{shards - len(self.work.pending())} of {shards} shards are done"

    def shard_done(self, k: int | None = None) -> None:
        """Show the progress after a shard was done, but not too often in a log."""
        self.done = self.lines_done()
        now = time.monotonic()
        if self.alive or now - self.said > SECONDS_BETWEEN_LINES or self.done == self.work.lines:
            self.said = now
            self.show(now - self.began)

    def lines_done(self) -> int:
        """Count the lines of the shards that are done.

        The files are counted, because a worker may be killed before it says that a shard is done.
        """
        pending = self.work.pending()
        return self.work.lines - sum(self.work.shards[k].lines for k in pending)

    def show(self, seconds: float) -> None:
        """Print the line of progress after this many seconds of work."""
        speed = (self.done - self.before) / max(seconds, 1e-9)
        left = (self.work.lines - self.done) / max(speed, 1e-9)
        line = (
            f"{self.done:,} of {self.work.lines:,} lines ({self.done / self.work.lines:.0%}), "
            f"{speed:.1f} sentences/s, {clock(left)} left"
        )
        end = "\r" if self.alive and self.done < self.work.lines else "\n"
        print(f"{line:<78}", end=end, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def show(result: Result, text: str, out: str) -> None:
    """Say what was parsed, with the notes on single lines the first time."""
    counts = f"{out}: {result.lines} lines, {result.lines} trees"
    if result.shown:
        notes = f"; {place(out)} has notes on {len(result.notes)} lines" if result.notes else ""
        say(f"{counts}, parsed and checked before{notes}")
        return
    report(result.notes, text)
    say(f"{counts}, checked against {text}")
    result.save_as_shown(out)


def report(notes: list, text: str) -> None:
    """Print the first notes on lines of the text."""
    for number, note in notes[:SHOWN_NOTES]:
        say(f"{Path(text)}:{number}: {note}")
    if len(notes) > SHOWN_NOTES:
        say(
            f"there are {len(notes) - SHOWN_NOTES} more such lines, which the result marks by "
            "'# note = '"
        )
