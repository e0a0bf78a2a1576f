"""Run a step in shards: split its inputs, process the unfinished shards, and join the outputs."""

import codecs
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole, is_used, leftovers, temp_name
from fairseq_posattn.files.files import fingerprint, same_number_of_lines
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.lines import (
    PLAN,
    TASK,
    Answer,
    Combine,
    LineStep,
    LineWork,
    Part,
    Shard,
    concatenate_all,
    do_shard,
    join,
    lines_of,
    parts,
)
from fairseq_posattn.jobs.slurm import Jobs, submit
from fairseq_posattn.jobs.step_records import StepRecord


def planned(step: LineStep, folder: Path, shard_lines: int) -> LineWork:
    """Return the plan of an earlier run, or split the inputs into shards if there is none.

    For a step with a record, raise an InputError if an earlier run with other options has finished
    shards or submitted them to Slurm.
    """
    key = {**step.key(), "shard_lines": shard_lines} if step.record else None
    if (folder / PLAN).exists():
        plan = StepRecord.read(folder / PLAN)
        if plan is None or not plan.answer:
            raise InputError(
                f"{folder / PLAN}: the file is damaged or was written before version 0.3.0; remove "
                f"{folder}"
            )
        shards = [Shard(**shard) for shard in plan.answer["shards"]]
        work = LineWork(folder, step, shards, plan.key)
        if key is None or work.key == key:
            return work
        if len(work.pending()) < len(work.shards) or (work.logs / TASK).exists():
            raise InputError(
                f"{folder}: this {step.name} was started with other options or inputs "
                f"({difference(work, key or {})}); run the same command as before, or remove the "
                "folder to start again"
            )
        remove(folder)
    elif is_used(folder):
        raise InputError(
            f"{folder}: the folder contains no {PLAN}; remove the folder to start again"
        )
    with folder_written_whole(folder, lock=False) as partial:
        for name in ("input", "done", "logs"):
            (partial / name).mkdir()
        shards = list(cut(step, partial / "input", shard_lines))
        StepRecord(key, [], {"shards": [asdict(shard) for shard in shards]}).write(partial / PLAN)
    return LineWork(folder, step, shards, key)


def difference(work: LineWork, now: dict[str, Any]) -> str:
    """Describe the first option that differs from the plan, with its old and new values."""
    old = work.key or {}  # the shards of a preparation have no key
    name = next(name for name in {**now, **old} if old.get(name) != now.get(name))
    before, value = old.get(name), now.get(name)
    if name == "files":
        others = [
            path
            for path, a, b in zip(work.step.inputs, before or [], value or [], strict=False)
            if a != b
        ]
        return f"{others[0]} has changed" if others else "other files"
    if isinstance(before, dict) and isinstance(value, dict):
        pairs = [(key, before.get(key), value.get(key)) for key in {**value, **before}]
        return f"{name}: " + ", ".join(f"{key} was {a}, is {b}" for key, a, b in pairs if a != b)
    return f"{name}: was {before}, is {value}"


def cut(step: LineStep, folder: Path, shard_lines: int) -> Iterator[Shard]:
    """Write the input files of each shard, and yield the shards."""
    start = 0
    for k, block in enumerate(blocks([step.read(path) for path in step.inputs], shard_lines)):
        (folder / f"{k:05d}").mkdir()
        paths = parts(folder, k, step.inputs)
        for path, lines in zip(paths, block, strict=True):
            Path(path).write_bytes(b"".join(lines))
        yield Shard(len(block[0]), start, [fingerprint(path) for path in paths])
        start += len(block[0])


def blocks(texts: Sequence[Iterator[bytes]], size: int) -> Iterator[list[list[bytes]]]:
    """Yield blocks of at least `size` parallel lines; the last block may be shorter.

    A line that starts with a byte order mark is added to the previous block, because readers remove
    such a mark at the start of a file.
    """
    ahead = [next(text, b"") for text in texts]
    while ahead[0]:
        block = [[line, *islice(text, size - 1)] for line, text in zip(ahead, texts, strict=True)]
        ahead = [next(text, b"") for text in texts]
        while any(line.startswith(codecs.BOM_UTF8) for line in ahead):
            for lines, line in zip(block, ahead, strict=True):
                lines.append(line)
            ahead = [next(text, b"") for text in texts]
        yield block


def remove(folder: Path) -> None:
    """Remove a folder of shards atomically: it is renamed before its files are deleted.

    Temporary folders of runs that were killed in `remove` or `planned` are removed, too.
    """
    folder = Path(os.path.realpath(folder))
    if folder.exists():
        os.rename(folder, temp_name(folder))
    for left in leftovers(folder):
        shutil.rmtree(left, ignore_errors=True)


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
    jobs, done = Jobs.of(work.logs), work.lines_done()
    shards = f"{len(work.shards) - len(work.pending())} of {len(work.shards)} shards are done"
    if done:
        say(f"{done:,} of {work.lines:,} lines were {work.step.done} before")
    if wait and jobs.queued():
        say(f"waiting for the Slurm jobs of an earlier run; {shards}")
        return wait_for_slurm(work, jobs)
    jobs.refuse_if_queued(shards)
    for line in jobs.failures(work):
        say(line)
    if cluster.executor == "local" and (cluster.workers or 1) == 1 and not work.step.on_gpus:
        with progress_of(work) as progress:
            for k in work.pending():
                do_shard(work, k)
                progress.show(work.lines_done())
        return True
    if run(work, cluster):
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
    return wait_for_slurm(work, jobs)


def progress_of(work: LineWork) -> Progress:
    return Progress(total=work.lines, done=work.lines_done(), unit="lines")


def wait_for_slurm(work: LineWork, jobs: Jobs) -> bool:
    """Wait until the job array has ended; raise an InputError if a shard is unfinished.

    The joining job need not end, because the caller joins the shards. If a shard is
    unfinished, the joining job is cancelled, because the next run must not find it in the queue.
    """
    began = time.monotonic()
    with progress_of(work) as progress:
        while is_queued(jobs, jobs.last.array):
            time.sleep(min(LONGEST_PAUSE, 1 + (time.monotonic() - began) / 10))
            progress.show(work.lines_done())
    if pending := work.pending():
        jobs.cancel_join()
        while is_queued(jobs, jobs.last.join):
            time.sleep(1)
        for line in jobs.failures(work):
            say(line)
        raise InputError(
            f"{len(pending)} of {len(work.shards)} shards failed (see {jobs.logs}); run the same "
            "command again to resume"
        )
    return True


def is_queued(jobs: Jobs, job: str | None) -> bool:
    """Return whether a job is queued or running; if squeue fails, return True."""
    try:
        return bool(job and jobs.is_queued(job))
    except InputError as error:
        say(str(error))
        return True


def run(work: LineWork, cluster: Cluster) -> bool:
    """Process the unfinished shards and return True, or submit them to Slurm and return False."""
    if cluster.executor == "slurm":
        submit(work, cluster)
        return False
    if cluster.executor == "ray":
        from fairseq_posattn.jobs.ray import run_here
    else:
        from fairseq_posattn.jobs.local import run_here  # multiprocessing would delay --help
    with progress_of(work) as progress:
        run_here(work, cluster, lambda k: progress.show(work.lines_done()))
    return True
