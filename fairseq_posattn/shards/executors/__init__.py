"""Run the shards with datatrove: on this machine, in a Slurm array, or on a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.shards.cluster import Cluster
from fairseq_posattn.shards.work import ShardedWork, Task

try:
    import datatrove  # noqa: F401
except ImportError as error:
    raise InputError(
        f"datatrove is missing ({error}): pip install 'fairseq_posattn[parse]'"
    ) from None

for name in ("asyncio", "fsspec"):  # fairseq's import turns on the debug messages of all libraries
    logging.getLogger(name).setLevel(logging.INFO)


def run(task: Task, cluster: Cluster, on_done: Callable[[int], None]) -> bool:
    """Do all shards that are not done, and return True, or False if Slurm does them later."""
    sync_completions(task.work, task.work.logs)
    if cluster.executor == "slurm":
        from fairseq_posattn.shards.executors.slurm import submit

        submit(task, cluster)
        return False
    if cluster.executor == "ray":
        from fairseq_posattn.shards.executors.ray import run_here
    else:
        from fairseq_posattn.shards.executors.local import run_here
    run_here(task, cluster, on_done)
    return True


def sync_completions(work: ShardedWork, logs: Path) -> None:
    """Make datatrove's list of finished tasks agree with the shards that are done."""
    completions = logs / "completions"
    completions.mkdir(parents=True, exist_ok=True)
    for k in range(len(work.shards)):
        marker = completions / f"{k:05d}"
        if work.is_done(k):
            marker.touch()
        else:
            marker.unlink(missing_ok=True)
