"""Do the shards on a Ray cluster, each in a task of its own."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.lines import LineWork, do_shard

RETRIES = 3  # a shard is tried again this often if its process or machine died
SECONDS_TO_WAIT_FOR_A_NODE = 300
SECONDS_BETWEEN_LOOKS = 10
SECONDS_TO_CONNECT = 30
QUIETLY = {"log_to_driver": False, "logging_level": logging.ERROR}


def run_here(work: LineWork, cluster: Cluster, on_done: Callable[[int], None]) -> None:
    """Do all shards that are not done, and wait for them."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            f"Ray is missing ({error}): pip install 'fairseq_posattn[cluster]'"
        ) from None
    connect(ray)
    run = RayRun(work, cluster, on_done)
    run.finish()
    if run.failures:
        k, failure = next(iter(run.failures.items()))
        cause = getattr(failure, "cause", None) or failure  # what was raised, or befell its process
        raise InputError(
            f"{len(run.failures)} of {len(work.shards)} shards failed on Ray, among them {k}: "
            f"{' '.join(str(cause).split())[:150]}; run the same command again, which goes on with "
            "them"
        )


def connect(ray) -> None:
    """Connect to the cluster that RAY_ADDRESS names, or to the one that this machine is part of.

    Where there is none, start Ray on this machine alone, so that nothing outside can reach it.
    """
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS")
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # where nothing listens, Ray would try for ever
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
        ray.init(address=address or "auto", **QUIETLY)
    except (OSError, RuntimeError, ValueError) as error:
        if address:
            said = " ".join(str(error).split())[:150]
            raise InputError(
                f"RAY_ADDRESS={address}: no Ray cluster answers there ({said}); start it, or name "
                "another address"
            ) from error
        own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        own["_system_config"] = {"task_oom_retries": RETRIES}  # Ray would try for ever by default
        ray.init(address="local", **QUIETLY, **own)


class RayRun:
    """A RayRun holds the tasks of one run, and starts, ends and counts them."""

    def __init__(self, work: LineWork, cluster: Cluster, on_done: Callable[[int], None]):
        import ray

        self.ray, self.on_done = ray, on_done
        self.waiting = work.pending()
        self.at_once = cluster.workers or len(self.waiting)
        self.at_work: dict[Any, int] = {}
        self.failures: dict[int, Exception] = {}
        gpus, memory = cluster.gpus, cluster.memory_gb << 30
        self.needs = {"CPU": 1, "GPU": gpus, "memory": memory}
        self.without_node_since: float | None = None
        self.work = ray.put(work.for_workers)
        remote = ray.remote(num_cpus=1, num_gpus=gpus, memory=memory, max_retries=RETRIES)
        self.start = remote(do_shard).remote

    def finish(self) -> None:
        """Start all tasks, as many at a time as are admitted, and wait for them."""
        while self.waiting or self.at_work:
            while self.waiting and len(self.at_work) < self.at_once:
                k = self.waiting.pop(0)
                self.at_work[self.start(self.work, k)] = k
            done, _ = self.ray.wait(list(self.at_work), timeout=SECONDS_BETWEEN_LOOKS)
            for task in done:
                k = self.at_work.pop(task)
                try:
                    self.ray.get(task)
                    self.on_done(k)
                except self.ray.exceptions.RayError as error:
                    self.failures[k] = error
            self.refuse_what_no_node_can_do()

    def refuse_what_no_node_can_do(self) -> None:
        """Raise an error if no machine is large enough, where Ray itself would wait for ever."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        wanted = self.needs.items()
        if any(all(node.get(name, 0) >= needed for name, needed in wanted) for node in nodes):
            self.without_node_since = None
            return
        now = time.monotonic()
        self.without_node_since = self.without_node_since or now
        if now - self.without_node_since >= SECONDS_TO_WAIT_FOR_A_NODE:
            raise InputError(
                f"no node of the Ray cluster has {self.needs['memory'] >> 30} GB of memory and "
                f"{self.needs['GPU']} GPUs for one worker, and none joined it in "
                f"{SECONDS_TO_WAIT_FOR_A_NODE} seconds; ask for less with --memory-gb and --gpus"
            )
