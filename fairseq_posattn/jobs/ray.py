"""Process shards on a Ray cluster, one task per shard."""

import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.lines import LineWork, do_shard

RETRIES = 3  # per shard, if its process or machine dies
SECONDS_TO_WAIT_FOR_A_NODE = 300
SECONDS_BETWEEN_LOOKS = 10
SECONDS_TO_CONNECT = 30
QUIETLY = {"log_to_driver": False, "logging_level": logging.ERROR}


def run_here(work: LineWork, cluster: Cluster, on_done: Callable[[int], None]) -> None:
    """Process the unfinished shards and wait for them."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            f"Ray is missing ({error}); run pip install 'fairseq_posattn[cluster]'"
        ) from None
    connect(ray)
    run = RayRun(work, cluster, on_done)
    run.finish()
    if run.failures:
        k, failure = next(iter(run.failures.items()))
        cause = getattr(failure, "cause", None) or failure  # the task's own error, if it raised one
        raise InputError(
            f"{len(run.failures)} of {len(work.shards)} shards failed on Ray; shard {k}: "
            f"{' '.join(str(cause).split())[:150]}; run the same command again to resume"
        )


def connect(ray) -> None:
    """Connect to the Ray cluster at RAY_ADDRESS or to the cluster that this machine belongs to.

    If RAY_ADDRESS is unset and there is no cluster, start Ray on this machine only; other machines
    cannot access it.
    """
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS")
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # if nothing listens there, Ray would retry forever
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
        ray.init(address=address or "auto", **QUIETLY)
    except (OSError, RuntimeError, ValueError) as error:
        if address:
            said = " ".join(str(error).split())[:150]
            raise InputError(
                f"RAY_ADDRESS={address}: cannot connect to a Ray cluster at this address ({said}); "
                "start one there, or set another address"
            ) from error
        own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        own["_system_config"] = {"task_oom_retries": RETRIES}  # unlimited by default
        ray.init(address="local", **QUIETLY, **own)


class RayRun:
    """Schedules the tasks of one run, and collects their failures."""

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
        self.work = ray.put(work)
        remote = ray.remote(num_cpus=1, num_gpus=gpus, memory=memory, max_retries=RETRIES)
        self.start = remote(do_shard).remote

    def finish(self) -> None:
        """Run all tasks, at most `at_once` at the same time, and wait until they have ended."""
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
        """Raise an InputError if no node is large enough for a task; Ray would wait forever."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        wanted = self.needs.items()
        if any(all(node.get(name, 0) >= needed for name, needed in wanted) for node in nodes):
            self.without_node_since = None
            return
        now = time.monotonic()
        self.without_node_since = self.without_node_since or now
        if now - self.without_node_since >= SECONDS_TO_WAIT_FOR_A_NODE:
            raise InputError(
                f"no node of the cluster has a CPU, {self.needs['memory'] >> 30} GB of memory and "
                f"{self.needs['GPU']} GPUs for a worker, and none joined it within "
                f"{SECONDS_TO_WAIT_FOR_A_NODE} seconds; request less with --memory-gb and --gpus"
            )
