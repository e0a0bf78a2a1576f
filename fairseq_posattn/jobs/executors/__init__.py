"""Process the shards of a step on this machine, in a Slurm job array or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.lines import LineWork


def run(work: LineWork, cluster: Cluster, on_done: Callable[[int], None]) -> bool:
    """Process the unfinished shards and return True, or submit them to Slurm and return False."""
    if cluster.executor == "slurm":
        from fairseq_posattn.jobs.executors.slurm import submit

        submit(work, cluster)
        return False
    if cluster.executor == "ray":
        from fairseq_posattn.jobs.executors.ray import run_here
    else:
        from fairseq_posattn.jobs.executors.local import run_here
    run_here(work, cluster, on_done)
    return True
