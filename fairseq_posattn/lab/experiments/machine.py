"""Distribute a training run over processes and machines, or several runs over one machine."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments.commands import python

PRECISIONS = ("bf16", "fp16", "fp32")
DEFAULT_TOKENS = 4096


@dataclass(frozen=True)
class Machine:
    """Options that describe the machine; if an option is None, its value is chosen automatically.

    gpus: number of GPUs to use on this machine.
    processes: number of processes on this machine, used only with `cpu`.
    nodes: number of machines that train together.
    rendezvous: address (HOST:PORT) at which the machines connect.
    node_rank: rank of this machine.
    tokens: maximum number of tokens that a GPU processes at once (default: DEFAULT_TOKENS).
    """

    cpu: bool = False
    gpus: int | None = None
    processes: int | None = None
    nodes: int = 1
    rendezvous: str | None = None
    node_rank: int | None = None
    tokens: int | None = None
    precision: str | None = None
    dry_run: bool = False  # if true, no visible GPU is required

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
                    "no GPU is visible; add --cpu (which is slow), or --gpus N with --dry-run"
                )
            return named
        if len(named) >= self.gpus:
            return named[: self.gpus]
        if self.dry_run:
            return [str(k) for k in range(self.gpus)]
        raise InputError(
            f"--gpus is {self.gpus}, but only {len(named)} GPUs are visible; use fewer"
        )

    def world(self) -> int:
        return self.each() * self.nodes

    def launch(self, job: str) -> list[str | Path]:
        """Return the start of the training command, up to and including the fairseq-train module.

        job: identifier that is the same on all machines that train together.
        """
        if self.nodes > 1:
            assert self.rendezvous is not None
            meeting = self.meeting(self.rendezvous, job)
            return [*self.torchrun(str(self.each())), *meeting, "-m", TRAIN]
        if self.world() > 1:
            return [*self.torchrun(str(self.each()), "--standalone"), "-m", TRAIN]
        return [*python(TRAIN)]

    def torchrun(self, each: str, *more: str) -> list[str | Path]:
        return [*python("torch.distributed.run"), *more, "--nproc_per_node", each]

    def meeting(self, rendezvous: str, job: str) -> list[str]:
        """Return the torchrun options that let the machines connect to each other."""
        nodes = ["--nnodes", str(self.nodes)]
        if self.node_rank is None:
            return [*nodes, *("--rdzv_backend", "c10d", "--rdzv_endpoint", rendezvous)] + [
                *("--rdzv_id", os.environ.get("SLURM_JOB_ID", job))
            ]
        host, _, port = rendezvous.rpartition(":")
        rank = ["--node_rank", str(self.node_rank)]
        return [*nodes, *rank, "--master_addr", host, "--master_port", port]

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
        return short(self.rendezvous.partition(":")[0]) == short(os.uname().nodename)

    def log_name(self) -> str:
        """Return the name of this machine's training log; each machine writes its own log."""
        return "train.log" if self.is_first() else f"train.{os.uname().nodename}.log"


TRAIN = "fairseq_cli.train"


def short(host: str) -> str:
    return host.partition(".")[0]


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


def shares(machine: Machine, runs: int, at_once: int | None) -> tuple[Machine, list[Share]]:
    """Divide a machine among several runs.

    Returns the machine options of a single run, and one share for each run that is executed in
    parallel. On a CPU, the default number of shares is the number of cores divided by the number of
    processes per run. GPUs are divided equally among the runs; several runs share a GPU only if
    `at_once` exceeds the number of GPUs.

    at_once: maximum number of parallel runs.
    """
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


def gpu_properties(machine: Machine, share: Share) -> list[Any]:
    """Return torch's properties of the GPUs that a run uses on this machine."""
    if machine.cpu:
        return []
    import torch

    used, visible = share.gpus or machine.devices(), visible_devices()
    return [torch.cuda.get_device_properties(visible.index(device)) for device in used]


Job = Callable[[Share], None]


def run_side_by_side(jobs: Sequence[Job], shares: Sequence[Share]) -> None:
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

    def on_a_share(job: Job) -> None:
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
