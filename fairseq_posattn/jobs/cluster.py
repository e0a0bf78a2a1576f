"""Options that select the machines on which shards are processed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairseq_posattn.files.records import at_least, one_of, option

EXECUTORS = ("local", "slurm", "ray")
PARSER_THREADS = "POSATTN_PARSER_THREADS"  # CPU threads per parser (default: 1)
# Options of sbatch that only parsers need.
OF_PARSERS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "exclusive", "cpus-per-task")


@dataclass(frozen=True)
class Cluster:
    """An executor with its options.

    workers: maximum number of concurrent processes. None means one process locally, and no limit on
        a cluster.
    """

    executor: str = option(
        "process the shards locally (default), in Slurm job arrays, or on the Ray cluster at "
        "RAY_ADDRESS (if unset, use this machine's cluster or start Ray locally)",
        "local",
        one_of(*EXECUTORS),
    )
    workers: int | None = option(
        "number of shards to process in parallel (default: 1 on this machine, no limit on a "
        "cluster)",
        None,
        at_least(1),
    )
    partition: str = option(
        "slurm: submit the jobs to this partition (default: the cluster's default)", ""
    )
    time: str = option(
        "slurm: time limit of each job; at most 1,000 jobs share the shards (default: %(default)s)",
        "24:00:00",
    )
    memory_gb: int = option(
        "slurm, ray: memory per worker in GB (default: %(default)s)", 4, at_least(1)
    )
    gpus: int = option(
        "slurm, ray: number of GPUs per worker (default: %(default)s)", 0, at_least(0)
    )
    setup: str = option(
        "slurm: command with which each job activates its environment (default: activate the "
        "current Python environment)",
        "",
    )
    sbatch: list[tuple[str, str]] = option(
        "slurm: pass an option to sbatch, such as account=nlp, qos=long, gres=gpu:a100:1, "
        "cpus-per-task=4 or exclusive; can be repeated",
        [],
        action="append",
        type=lambda text: text.partition("=")[::2],
        write="=".join,
        metavar="NAME[=VALUE]",
    )

    @property
    def for_plain_work(self) -> Cluster:
        """Return a copy without the resources that only parsers need, such as GPUs."""
        options = [(name, value) for name, value in self.sbatch if name not in OF_PARSERS]
        return replace(self, gpus=0, sbatch=options)
