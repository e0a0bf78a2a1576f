"""Run a step in shards: process the unfinished ones, wait for the cluster, and join the outputs."""

from __future__ import annotations

import time
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import same_number_of_lines
from fairseq_posattn.files.progress import Progress, say
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.cut import planned, remove
from fairseq_posattn.jobs.executors import run
from fairseq_posattn.jobs.lines import (
    Answer,
    Combine,
    LineStep,
    LineWork,
    Part,
    concatenate_all,
    do_shard,
    join,
    lines_of,
)
from fairseq_posattn.jobs.slurm_jobs import Jobs

LONGEST_PAUSE = 30  # maximum number of seconds between two queries to Slurm


def do_lines(
    step: LineStep,
    folder: Path,
    cluster: Cluster,
    shard_lines: int,
    combine: Combine = concatenate_all,
    wait: bool = True,
    keep: bool = False,
) -> list[Answer] | None:
    """Run a step and return the JSON objects of its shards.

    Return None if Slurm jobs will process the shards and `wait` is not set. Inputs of at most
    `shard_lines` lines are not split.

    folder: stores the shards until the outputs are complete, so that a later run can resume.
    keep: whether to keep this folder afterwards.
    """
    if step.read is lines_of and same_number_of_lines(step.inputs) <= shard_lines:
        return [step.act(Part(step.inputs, step.outputs)) or {}]
    work = planned(step, folder, shard_lines)
    if work.pending() and not do_pending(work, cluster, wait):
        return None
    answers = join(work, combine)
    Jobs.of(work.logs).cancel_join()
    if not keep:
        remove(folder)
    return answers


def discard(folder: Path) -> None:
    """Remove the shards of an abandoned step; raise an InputError if Slurm still uses them."""
    Jobs.of(folder / "logs").refuse_if_queued("they use different options")
    remove(folder)


def do_pending(work: LineWork, cluster: Cluster, wait: bool) -> bool:
    """Process the unfinished shards and return True, or leave them to Slurm and return False.

    A single local worker runs in this process, unless it may use a GPU.
    """
    jobs, progress = Jobs.of(work.logs), Progress(work.lines, work.lines_done(), "lines")
    shards = f"{len(work.shards) - len(work.pending())} of {len(work.shards)} shards are done"
    if progress.done:
        say(f"{progress.done:,} of {work.lines:,} lines were {work.step.done} before")
    if wait and jobs.queued():
        say(f"waiting for the Slurm jobs of an earlier run; {shards}")
        return wait_for_slurm(work, jobs, progress)
    jobs.refuse_if_queued(shards)
    for line in jobs.failures(work):
        say(line)
    if cluster.executor == "local" and (cluster.workers or 1) == 1 and not work.step.on_gpus:
        for k in work.pending():
            do_shard(work, k)
            progress.show(work.lines_done())
        return True
    if run(work, cluster, lambda k: progress.show(work.lines_done())):
        return True
    jobs = Jobs.of(work.logs)
    joins = f", and job {jobs.last.join} joins them" if jobs.last.join else ""
    say(
        f"submitted: Slurm job {jobs.last.array} {work.step.verb} {len(work.pending())} of "
        f"{len(work.shards)} shards{joins}; their logs are in {jobs.logs}"
    )
    if not wait:
        say("run the same command to see their progress, and to resume if some fail")
        return False
    say("waiting for them; if this is interrupted, run the same command to wait again")
    return wait_for_slurm(work, jobs, progress)


def wait_for_slurm(work: LineWork, jobs: Jobs, progress: Progress) -> bool:
    """Wait until the job array has ended; raise an InputError if a shard is unfinished.

    The joining job is not waited for, because the caller joins the shards.
    """
    began = time.monotonic()
    while is_queued(jobs):
        time.sleep(min(LONGEST_PAUSE, 1 + (time.monotonic() - began) / 10))
        progress.show(work.lines_done())
    if pending := work.pending():
        for line in jobs.failures(work):
            say(line)
        raise InputError(
            f"{len(pending)} of {len(work.shards)} shards failed (see {jobs.logs}); run the same "
            "command again to resume"
        )
    return True


def is_queued(jobs: Jobs) -> bool:
    """Return whether the job array is queued or running; if squeue fails, return True."""
    try:
        return bool(jobs.last.array and jobs.is_queued(jobs.last.array))
    except InputError as error:
        say(str(error))
        return True
