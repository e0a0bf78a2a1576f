"""Where the shards of a parse are worked on, as the options of the commands say it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field

from fairseq_posattn.io.argument_types import not_negative, positive

EXECUTORS = ("local", "slurm", "ray")


@dataclass(frozen=True)
class Cluster:
    """The executor and its options. Without `workers`, one process works on this machine; on a
    cluster, as many as it has room for."""

    executor: str = "local"
    workers: int | None = None
    partition: str = ""
    time: str = "24:00:00"
    memory_gb: int = 4
    gpus: int = 0
    setup: str = ""
    sbatch: dict = field(default_factory=dict)


def add_cluster_options(group) -> None:
    add = group.add_argument
    add(
        "--executor",
        choices=EXECUTORS,
        default="local",
        help="processes of this machine (default), a Slurm array, or a Ray cluster, whose address "
        "stands in RAY_ADDRESS (without it, a Ray that is started on this machine)",
    )
    add(
        "--workers",
        type=positive,
        help="how many shards at once (default: one on this machine, no limit on a cluster)",
    )
    add(
        "--memory-gb",
        type=positive,
        default=Cluster.memory_gb,
        help="slurm, ray: for each worker (default: %(default)s)",
    )
    add(
        "--gpus",
        type=not_negative,
        default=Cluster.gpus,
        help="slurm, ray: for each worker (default: %(default)s)",
    )
    add("--partition", default="", help="slurm: where to run (default: the cluster's default)")
    add(
        "--time",
        default=Cluster.time,
        help="slurm: limit for one job of the array, of 1,000 at most (default: %(default)s)",
    )
    add("--setup", default="", help="slurm: command that activates the environment")
    add(
        "--sbatch",
        action="append",
        type=lambda text: text.partition("=")[::2],
        default=[],
        metavar="NAME[=VALUE]",
        help="slurm: any further option of sbatch, e.g. account=nlp, qos=long, gres=gpu:a100:1, "
        "cpus-per-task=4, exclusive",
    )


def cluster_of(options: Namespace) -> Cluster:
    """What these options say."""
    return Cluster(
        options.executor,
        options.workers,
        options.partition,
        options.time,
        options.memory_gb,
        options.gpus,
        options.setup,
        dict(options.sbatch),
    )
