"""Distribute a training run over processes and machines, or several runs over one machine."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import Command, python
from fairseq_posattn.files.records import at_least, option

PRECISIONS = ("bf16", "fp16", "fp32")
DEFAULT_TOKENS = 4096


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Options that describe the machine; if an option is None, its value is chosen automatically.

    tokens: maximum number of tokens that a GPU processes at once (default: DEFAULT_TOKENS).
    dry_run: `gpus` may exceed the visible GPUs.
    """

    cpu: bool = option("use the CPU only", False)
    gpus: int | None = option(
        "use N GPUs of this machine, divided among parallel runs (default: all)", None, at_least(1)
    )
    processes: int | None = option(
        "with --cpu: number of processes per run (default: 1)", None, at_least(1)
    )
    at_once: int | None = option(
        "number of parallel runs (default: as many as the cores or GPUs permit)", None, at_least(1)
    )
    nodes: int = option("train on N machines together", 1, at_least(1))
    rendezvous: str | None = option(
        "address through which the N machines of --nodes connect to each other",
        None,
        metavar="HOST:PORT",
    )
    node_rank: int | None = option(
        "rank of this machine; HOST has rank 0 (default: assigned by torch)", None, at_least(0)
    )
    tokens: int | None = None
    precision: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.nodes > 1 and self.rendezvous is None:
            raise InputError(
                "--nodes requires --rendezvous HOST:PORT; give the same address on all machines"
            )

    def each(self) -> int:
        if self.cpu:
            return self.processes or 1
        return len(self.devices())

    def devices(self) -> list[str]:
        """Return the names of the GPUs to use; raise an InputError if too few are visible."""
        named = visible_devices()
        if self.gpus is None:
            if not named:
                raise InputError(
                    "no GPU is visible; add --cpu, or --dry-run --gpus N to only print the commands"
                )
            return named
        if len(named) >= self.gpus:
            return named[: self.gpus]
        if self.dry_run:
            return [str(k) for k in range(self.gpus)]
        raise InputError(
            f"--gpus is {self.gpus}, but only {len(named)} GPUs are visible; use fewer, or --cpu"
        )

    def world(self) -> int:
        return self.each() * self.nodes

    def launch(self, job: str) -> Command:
        """Return the start of the training command, up to and including the fairseq-train module.

        job: identifier that is the same on all machines that train together.
        """
        if self.world() == 1:
            return python(TRAIN)
        each, torchrun = ["--nproc_per_node", str(self.each())], python("torch.distributed.run")
        if self.nodes == 1:
            return [*torchrun, "--standalone", *each, "-m", TRAIN]
        nodes, address = ["--nnodes", str(self.nodes)], str(self.rendezvous)
        if self.node_rank is None:
            job = os.environ.get("SLURM_JOB_ID", job)
            nodes += ["--rdzv_backend", "c10d", "--rdzv_endpoint", address, "--rdzv_id", job]
        else:
            host, _, port = address.rpartition(":")
            nodes += ["--node_rank", str(self.node_rank)]
            nodes += ["--master_addr", host, "--master_port", port]
        return [*torchrun, *each, *nodes, "-m", TRAIN]

    def options(self) -> dict[str, object]:
        """Return the options of fairseq-train that depend on the machine."""
        found: dict[str, object] = {}
        if self.cpu:
            found["cpu"] = True
        elif self.computes_in() != "fp32":
            found[self.computes_in()] = True
        found["distributed-world-size"] = self.world()
        if self.cpu and self.world() > 1:
            found |= {"distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}
        return found

    def computes_in(self) -> str:
        return "fp32" if self.cpu else self.precision or best_precision()

    def batch(self, batch_tokens: int) -> dict[str, int]:
        """Return max-tokens and update-freq for batches of `batch_tokens` tokens.

        Each batch is divided among all processes.
        """
        steps = -(-batch_tokens // ((self.tokens or DEFAULT_TOKENS) * self.world()))
        return {"max-tokens": batch_tokens // (self.world() * steps), "update-freq": steps}

    def is_first(self) -> bool:
        if self.nodes == 1 or self.node_rank == 0:
            return True
        if self.node_rank is not None or self.rendezvous is None:
            return False
        host = self.rendezvous.partition(":")[0]
        return host.partition(".")[0] == os.uname().nodename.partition(".")[0]

    def log_name(self) -> str:
        """Return the name of this machine's training log; each machine writes its own log."""
        return "train.log" if self.is_first() else f"train.{os.uname().nodename}.log"


TRAIN = "fairseq_cli.train"


@cache
def visible_gpus() -> int:
    """Return the number of GPUs visible to torch, or 0 if torch is not installed."""
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count()


@cache
def best_precision() -> str:
    """Return the fastest precision that the GPU supports, or fp32 if there is no GPU."""
    try:
        import torch
    except ImportError:  # only in a dry run
        return "fp32"
    if not torch.cuda.is_available():
        return "fp32"
    major, _ = torch.cuda.get_device_capability()
    return "bf16" if major >= 8 else "fp16" if major == 7 else "fp32"


@dataclass(frozen=True)
class Share:
    """The GPUs and threads that one of several parallel runs may use."""

    gpus: tuple[str, ...] = ()
    threads: int | None = None

    def environment(self) -> dict[str, str]:
        """Return environment variables that restrict a command to this share."""
        found = {}
        if self.gpus:
            found["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)
        if self.threads and "OMP_NUM_THREADS" not in os.environ:
            found["OMP_NUM_THREADS"] = str(self.threads)
        return found


def shares(machine: Machine, runs: int) -> tuple[Machine, list[Share]]:
    """Divide a machine among several runs.

    Returns the machine options of a single run, and one share for each run that is executed in
    parallel. On a CPU, the default number of shares is the number of cores divided by the number of
    processes per run. GPUs are divided equally among the runs; several runs share a GPU only if
    `machine.at_once` exceeds the number of GPUs.
    """
    at_once = machine.at_once
    if machine.nodes > 1 or runs == 1:
        return machine, [Share()]
    if machine.cpu:
        side = at_once or max(1, cores() // machine.each())
        side = min(side, runs)
        return machine, [Share(threads=max(1, cores() // (side * machine.each())))] * side
    devices = machine.devices()
    if at_once and min(at_once, runs) > len(devices):  # several share a GPU
        parts = [Share((devices[k % len(devices)],)) for k in range(min(at_once, runs))]
        return replace(machine, gpus=1), parts
    side = min(at_once or runs, runs, len(devices))
    each = len(devices) // side
    parts = [Share(tuple(devices[k * each : (k + 1) * each])) for k in range(side)]
    return replace(machine, gpus=each), parts


def cores() -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return allowed or 1


def visible_devices() -> list[str]:
    """Return the names of the GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(k) for k in range(visible_gpus())]
    return [name for name in named.split(",") if name]


def run_side_by_side(jobs: Sequence[Callable[[Share], None]], shares: Sequence[Share]) -> None:
    """Run all jobs, at most one at a time on each share.

    If a job fails, no further jobs are started. Jobs that are already running are completed, so
    that their results can be reused, and then the exception is raised.
    """
    if len(shares) == 1:
        for job in jobs:
            job(shares[0])
        return
    free: queue.Queue[Share] = queue.Queue()
    for share in shares:
        free.put(share)

    def on_a_share(job: Callable[[Share], None]) -> None:
        share = free.get()
        try:
            job(share)
        finally:
            free.put(share)

    with ThreadPoolExecutor(len(shares)) as pool:
        futures = [pool.submit(on_a_share, job) for job in jobs]
        try:
            # the timeout lets signals reach the main thread
            while wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION).not_done:
                if any(future.done() and future.exception() for future in futures):
                    break
        finally:
            for future in futures:
                future.cancel()
    for future in futures:
        if not future.cancelled():
            future.result()
