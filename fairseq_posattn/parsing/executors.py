"""datatrove's executors: shards on this machine, in a Slurm array, or on a Ray cluster."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CalledProcessError

from fairseq_posattn.files import InputError
from fairseq_posattn.parsing.work import Work, do_shard, join, locked

try:
    from datatrove.executor import (
        LocalPipelineExecutor,
        SlurmPipelineExecutor,
    )
    from datatrove.pipeline.base import PipelineStep
    from datatrove.utils.logging import logger
except ImportError as error:
    raise InputError(
        f"datatrove is missing ({error}): pip install 'fairseq_posattn[parse]'"
    ) from None

EXECUTORS = ("local", "slurm", "ray")
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
QUIET = 1  # datatrove prints what the process with the local rank 0 does
LONGEST_ARRAY = 1000  # Slurm's usual limit; of several arrays the joining job would wait for one
JOBS = "jobs.json"  # what was submitted to Slurm


class ParseShard(PipelineStep):
    """The k-th task does the k-th shard."""

    name = "parse"
    type = "parse"

    def __init__(self, work: Work):
        super().__init__()
        self.work = work

    def run(self, data, rank: int = 0, world_size: int = 1):
        do_shard(self.work, rank)


class Join(PipelineStep):
    """After all shards."""

    name = "join"
    type = "parse"

    def __init__(self, work: Work):
        super().__init__()
        self.work = work

    def run(self, data, rank: int = 0, world_size: int = 1):
        with locked(self.work.folder):
            join(self.work)


class LocalExecutor(LocalPipelineExecutor):
    """datatrove's, with a pool that tells a killed worker from a busy one: datatrove's own would
    wait for it for ever."""

    def __init__(self, *args, on_done: Callable[[int], None] = lambda rank: None, **kwargs):
        super().__init__(*args, **kwargs)
        self.on_done = on_done

    def run(self) -> None:
        deaths = 0
        while ranks := self.get_incomplete_ranks():
            try:
                self.run_ranks(ranks)
            except BrokenProcessPool:
                deaths = 0 if len(self.get_incomplete_ranks()) < len(ranks) else deaths + 1
                if deaths == 3:
                    raise InputError(
                        "workers were killed three times in a row before they finished anything "
                        "(out of memory?); with fewer --workers or a smaller --max-words the same "
                        "command goes on from here"
                    ) from None
                logging.warning("a worker was killed; going on with the rest")

    def run_ranks(self, ranks: list[int]) -> None:
        context = multiprocessing.get_context("spawn")
        numbers = context.SimpleQueue()
        workers = min(self.workers, len(ranks))
        for number in range(workers):
            numbers.put(number)
        on_done, self.on_done = self.on_done, None  # not for the workers
        pool = ProcessPoolExecutor(workers, context, be_worker, (os.getpid(), numbers))
        try:
            with interrupts_blocked():  # workers inherit that; they start with the first task
                tasks = {pool.submit(self._run_for_rank, rank, QUIET): rank for rank in ranks}
            for task in as_completed(tasks):
                task.result()
                on_done(tasks[task])
        except KeyboardInterrupt:
            for worker in multiprocessing.active_children():  # they would finish their shards first
                worker.kill()
            raise
        finally:
            self.on_done = on_done
            pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def be_worker(parent: int, numbers) -> None:
    """Die with the parent, whatever kills it; take a GPU of one's own."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    logger.disable("datatrove")  # an error reaches the user once, from the parent
    if gpus := visible_gpus():
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[numbers.get() % len(gpus)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def visible_gpus() -> list[str]:
    import torch

    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named.split(",")
    return [str(k) for k in range(torch.cuda.device_count())]


class SlurmExecutor(SlurmPipelineExecutor):
    """datatrove's, without its jobs that sum up statistics, and on the default partition too."""

    def get_sbatch_args(self, *args, **kwargs) -> dict:
        options = super().get_sbatch_args(*args, **kwargs)
        if not self.partition:
            del options["partition"]
        return {"kill-on-invalid-dep": "yes", **options}

    def launch_merge_stats(self) -> None:
        pass


@dataclass(frozen=True)
class Cluster:
    """Where shards are worked on."""

    executor: str = "local"
    workers: int = 1
    partition: str = ""
    time: str = "24:00:00"
    memory_gb: int = 4
    gpus: int = 0
    setup: str = ""
    sbatch: dict = field(default_factory=dict)


def run(work: Work, cluster: Cluster, on_done: Callable[[int], None]) -> bool:
    """Work on all shards that are not done; False: it goes on elsewhere, after this program."""
    logs = work.folder / "logs"
    refuse_while_submitted(logs / JOBS)
    keep_truth(work, logs)
    common = {"tasks": len(work.shards), "workers": cluster.workers, "logging_dir": str(logs)}
    if cluster.executor == "local":
        LocalExecutor([ParseShard(work)], on_done=on_done, **common).run()
        return True
    if cluster.executor == "ray":
        run_ray(work, cluster, common)
        return True
    submit(work, cluster, common)
    return False


def keep_truth(work: Work, logs: Path) -> None:
    """datatrove's list of finished tasks follows the files that are there."""
    completions = logs / "completions"
    completions.mkdir(parents=True, exist_ok=True)
    for k in range(len(work.shards)):
        marker = completions / f"{k:05d}"
        if work.is_done(k):
            marker.touch()
        else:
            marker.unlink(missing_ok=True)


def run_ray(work: Work, cluster: Cluster, common: dict) -> None:
    try:
        import ray
        from datatrove.executor.ray import RayPipelineExecutor
    except ImportError as error:
        raise InputError(
            f"Ray is missing ({error}): pip install 'fairseq_posattn[cluster]'"
        ) from None
    if not ray.is_initialized():
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False)
    executor = RayPipelineExecutor(
        [ParseShard(work)],
        mem_per_cpu_gb=cluster.memory_gb,
        gpus_per_task=cluster.gpus,
        **common,
    )
    executor.run()
    if pending := work.pending():
        raise InputError(
            f"{len(pending)} of {len(work.shards)} shards failed on Ray (see {work.folder}/logs); "
            "the same command goes on with them"
        )


def submit(work: Work, cluster: Cluster, common: dict) -> None:
    """A Slurm array for the shards, and a job that joins them after it."""
    options = {
        "time": cluster.time,
        "partition": cluster.partition,
        "mem_per_cpu_gb": cluster.memory_gb,
        "env_command": cluster.setup or activate_this_environment(),
        "qos": "",
        "requeue": True,
    }
    shards = SlurmExecutor(
        [ParseShard(work)],
        job_name="parse",
        tasks_per_job=math.ceil(len(work.pending()) / LONGEST_ARRAY),
        sbatch_args={**({"gpus": cluster.gpus} if cluster.gpus else {}), **cluster.sbatch},
        **options,
        **common,
    )
    after = {"tasks": 1, "logging_dir": str(work.folder / "logs" / f"join-{time.time_ns()}")}
    joining = SlurmExecutor(
        [Join(work)],
        job_name="parse-join",
        depends=shards,
        sbatch_args=dict(cluster.sbatch),
        **options,
        **after,
    )
    try:
        joining.run()
    except CalledProcessError as error:
        raise InputError(
            f"sbatch ended with exit code {error.returncode} (its message is above); "
            f"it was given {work.folder}/logs/launch_script.slurm"
        ) from error
    finally:
        submitted = [executor.job_id for executor in (shards, joining) if executor.job_id]
        (work.folder / "logs" / JOBS).write_text(json.dumps(submitted))


def refuse_while_submitted(jobs: Path) -> None:
    """What is given to Slurm once more would be done twice."""
    submitted = json.loads(jobs.read_text()) if jobs.exists() else []
    if queued := [job for job in submitted if is_queued(job)]:
        listed = " ".join(map(str, queued))
        raise InputError(
            f"Slurm still has jobs of an earlier run, waiting or at work: {listed} (squeue shows "
            f"them); let them end, or take the work from them with scancel {listed}"
        )


def is_queued(job: str) -> bool:
    """Slurm forgets a job soon after its end: that is an error then."""
    command = ["squeue", "--noheader", "--jobs", str(job)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return found.returncode == 0 and bool(found.stdout.strip())


def activate_this_environment() -> str:
    script = Path(sys.prefix) / "bin" / "activate"
    return (
        f"source {script}"
        if script.exists()
        else f"export PATH={Path(sys.executable).parent}:$PATH"
    )
