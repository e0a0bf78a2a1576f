"""Define the options that say on which machines the shards of a work are done."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field, replace

from fairseq_posattn.io.argument_types import add_fields, chosen, not_negative, option, positive

EXECUTORS = ("local", "slurm", "ray")
PARSER_THREADS = "POSATTN_PARSER_THREADS"  # this many threads one parser uses on CPUs (default: 1)
# Options of sbatch that a parser may need, but no other work.
OF_PARSERS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "exclusive", "cpus-per-task")


@dataclass(frozen=True)
class Cluster:
    """A cluster is an executor with its options.

    Without `workers`, one process works on this machine, or as many as a cluster has room for.
    """

    executor: str = option(
        "do the shards by processes of this machine (default), by Slurm arrays, or on the Ray "
        "cluster that RAY_ADDRESS names (without it, Ray is started on this machine)",
        "local",
        choices=EXECUTORS,
    )
    workers: int | None = option(
        "how many shards are worked on at once (default: one on this machine; a cluster has no "
        "limit)",
        None,
        type=positive,
    )
    partition: str = option(
        "slurm: the jobs run on this partition (default: the cluster's default)", ""
    )
    time: str = option(
        "slurm: each job of the array is ended after this time; there are at most 1,000 jobs "
        "(default: %(default)s)",
        "24:00:00",
    )
    memory_gb: int = option(
        "slurm, ray: each worker gets this many GB of memory (default: %(default)s)",
        4,
        type=positive,
    )
    gpus: int = option(
        "slurm, ray: each worker gets this many GPUs (default: %(default)s)", 0, type=not_negative
    )
    setup: str = option(
        "slurm: each job runs this command to activate the environment (default: activate the one "
        "that is in use)",
        "",
    )
    sbatch: dict = field(default_factory=dict)

    @property
    def for_plain_work(self) -> Cluster:
        """Return the cluster without what only a parser may need, such as a GPU."""
        options = {name: value for name, value in self.sbatch.items() if name not in OF_PARSERS}
        return replace(self, gpus=0, sbatch=options)


def add_cluster_options(group) -> None:
    """Add the options of an executor to a parser of a command line."""
    add_fields(group, Cluster)
    group.add_argument(
        "--sbatch",
        action="append",
        type=lambda text: text.partition("=")[::2],
        default=[],
        metavar="NAME[=VALUE]",
        help="slurm: pass a further option to sbatch, such as account=nlp, qos=long, "
        "gres=gpu:a100:1, cpus-per-task=4 or exclusive; this option may be repeated",
    )


def cluster_of(options: Namespace) -> Cluster:
    """Return the cluster that the options of a command describe."""
    return chosen(Cluster, options, sbatch=dict(options.sbatch))
