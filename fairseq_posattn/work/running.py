"""Process the unfinished shards of a step, wait for the cluster, and show the progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import same_number_of_lines
from fairseq_posattn.io.progress import say
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.cut import planned, remove, remove_rest
from fairseq_posattn.work.executors import run
from fairseq_posattn.work.lines import Answer, LineStep, LineWork, Part, do_shard, join
from fairseq_posattn.work.slurm_jobs import Jobs

SECONDS_BETWEEN_LINES = 10
LONGEST_PAUSE = 30  # maximum number of seconds between two queries to Slurm


def do_lines(step: LineStep, folder: Path, cluster: Cluster, shard_lines: int) -> list[Answer]:
    """Run a step and return the JSON objects of its shards.

    Inputs of at most `shard_lines` lines are not split.

    folder: stores the shards until the outputs are complete, so that a later run can resume.
    """
    remove_rest(folder)
    if same_number_of_lines(step.inputs) <= shard_lines:
        return [step.act(Part(step.inputs, step.outputs)) or {}]
    work = planned(step, folder, shard_lines)
    if work.pending():
        do_pending(work, cluster)
    answers = join(work)
    remove(folder)
    return answers


def do_pending(work: LineWork, cluster: Cluster) -> None:
    """Process all unfinished shards, and wait until they are finished.

    A single local worker runs in this process.
    """
    if cluster.executor != "local" or (cluster.workers or 1) > 1:
        if not do(work, cluster, wait=True):
            wait_for_slurm(work)
        return
    progress = Progress(work)
    for k in work.pending():
        do_shard(work, k)
        progress.shard_done()


def discard(folder: Path, state: str = "they use different options") -> None:
    """Remove the shards of an abandoned step; raise an InputError if Slurm still uses them."""
    if folder.exists():
        Jobs.of(folder / "logs").refuse_if_queued(state)
        remove(folder)


def do(work: LineWork, cluster: Cluster, wait: bool) -> bool:
    """Process the unfinished shards and return True, or submit them to Slurm and return False."""
    progress, jobs = Progress(work), Jobs.of(work.logs)
    if wait and jobs.queued():
        say(f"waiting for the Slurm jobs of an earlier run; {progress.shards()}")
        return False
    jobs.refuse_if_queued(progress.shards())
    for line in jobs.failures(work):
        say(line)
    if run(work, cluster, progress.shard_done):
        return True
    jobs = Jobs.of(work.logs)
    joins = f", and job {jobs.last.join} joins them" if jobs.last.join else ""
    say(
        f"submitted: Slurm job {jobs.last.array} {work.step.verb} {len(work.pending())} of "
        f"{len(work.shards)} shards{joins}; their logs are in {jobs.logs}"
    )
    say(
        "waiting for them; if this is interrupted, run the same command to wait again"
        if wait
        else "run the same command to see their progress, and to resume if some fail"
    )
    return False


def wait_for_slurm(work: LineWork) -> None:
    """Wait until the Slurm jobs have ended; raise an InputError if a shard is unfinished."""
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
            "command again to resume"
        )


def is_queued(jobs: Jobs) -> bool:
    """Return whether a job is queued or running; if squeue fails, return True."""
    try:
        return bool(jobs.queued())
    except InputError as error:
        say(str(error))
        return True


class Progress:
    """Prints the sentences per second and the remaining time to a terminal or log file."""

    def __init__(self, work: LineWork):
        self.work = work
        self.before = self.done = self.lines_done()
        self.began = self.said = time.monotonic()
        self.alive = sys.stderr.isatty()
        if self.before:
            say(f"{self.before:,} of {self.work.lines:,} lines were {work.step.done} before")

    def shards(self) -> str:
        shards = len(self.work.shards)
        return f"{shards - len(self.work.pending())} of {shards} shards are done"

    def shard_done(self, k: int | None = None) -> None:
        """Show the progress after a shard; in a log, at most once per SECONDS_BETWEEN_LINES."""
        self.done = self.lines_done()
        now = time.monotonic()
        if self.alive or now - self.said > SECONDS_BETWEEN_LINES or self.done == self.work.lines:
            self.said = now
            self.show(now - self.began)

    def lines_done(self) -> int:
        """Return the number of lines in finished shards.

        They are counted from the records of the shards, because a killed worker does not report its
        work.
        """
        pending = self.work.pending()
        return self.work.lines - sum(self.work.shards[k].lines for k in pending)

    def show(self, seconds: float) -> None:
        """Print the progress.

        seconds: the time since the start.
        """
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
