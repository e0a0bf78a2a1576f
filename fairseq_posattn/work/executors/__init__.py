"""Do the shards of a work: on this machine, in a Slurm array, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.lines import LineWork


def run(work: LineWork, cluster: Cluster, on_done: Callable[[int], None]) -> bool:
    """Do all shards that are not done, and return True, or False if Slurm does them later."""
    if cluster.executor == "slurm":
        from fairseq_posattn.work.executors.slurm import submit

        submit(work, cluster)
        return False
    if cluster.executor == "ray":
        from fairseq_posattn.work.executors.ray import run_here
    else:
        from fairseq_posattn.work.executors.local import run_here
    run_here(work, cluster, on_done)
    return True
