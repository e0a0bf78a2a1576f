"""Do the shards on this machine, by a pool of processes."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from datatrove.executor import LocalPipelineExecutor
from datatrove.utils.logging import logger

from fairseq_posattn.errors import InputError
from fairseq_posattn.shards.cluster import Cluster
from fairseq_posattn.shards.executors.steps import DoShard
from fairseq_posattn.shards.work import Task

DEATH_SIGNAL = 1  # Linux calls this PR_SET_PDEATHSIG
QUIET = 1  # datatrove prints what the process with the local rank 0 does


def run_here(task: Task, cluster: Cluster, on_done: Callable[[int], None]) -> None:
    """Do all shards that are not done, and call `on_done` after each."""
    LocalExecutor(
        [DoShard(task)],
        tasks=len(task.work.shards),
        workers=cluster.workers or 1,
        logging_dir=str(task.work.logs),
        on_done=on_done,
        on_gpus=task.on_gpus,
    ).run()


class LocalExecutor(LocalPipelineExecutor):
    """This executor of datatrove has a pool that notices a killed worker.

    datatrove's own pool would wait for such a worker for ever.
    """

    def __init__(
        self,
        *args,
        on_done: Callable[[int], None] = lambda rank: None,
        on_gpus: bool = False,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.on_gpus = on_gpus
        self.on_done: Callable[[int], None] | None = on_done

    def run(self) -> None:
        """Do the shards, again if workers were killed, but not for ever."""
        deaths = 0
        while ranks := self.get_incomplete_ranks():
            try:
                self.run_ranks(ranks)
            except BrokenProcessPool:
                deaths = 0 if len(self.get_incomplete_ranks()) < len(ranks) else deaths + 1
                if deaths == 3:
                    raise InputError(
                        "workers were killed three times in a row before they finished anything, "
                        "perhaps for lack of memory; run the same command with fewer --workers or "
                        "a smaller --max-words, and it goes on from here"
                    ) from None
                logging.warning("a worker was killed; the others go on")

    def run_ranks(self, ranks: list[int]) -> None:
        """Do the shards of these numbers with a new pool."""
        context = multiprocessing.get_context("spawn")
        numbers = context.SimpleQueue()
        workers = min(self.workers, len(ranks))
        for number in range(workers):
            numbers.put(number)
        on_done, self.on_done = self.on_done, None  # the workers must not get it
        assert on_done is not None  # this process is no worker
        pool = ProcessPoolExecutor(
            workers, context, be_worker, (os.getpid(), numbers, self.on_gpus)
        )
        before, threading.excepthook = threading.excepthook, print_unless_of_the_pool
        try:
            with interrupts_blocked():  # the workers inherit that, and start with the first task
                tasks = {submit(pool, self._run_for_rank, rank, QUIET): rank for rank in ranks}
            for task in as_completed(tasks):
                task.result()
                on_done(tasks[task])
        except (KeyboardInterrupt, BrokenProcessPool):
            for worker in multiprocessing.active_children():  # they would finish their shards first
                worker.kill()
            raise
        finally:
            self.on_done = on_done
            pool.shutdown(wait=True, cancel_futures=True)
            threading.excepthook = before


def submit(pool: ProcessPoolExecutor, *task) -> Future:
    """Give a task to the pool; a pool that breaks meanwhile may only say `handle is closed`."""
    try:
        return pool.submit(*task)
    except OSError as error:
        if error.errno is not None:  # of the system, which cannot start another process
            raise
        raise BrokenProcessPool("a worker was killed while tasks were handed out") from error


def print_unless_of_the_pool(error: threading.ExceptHookArgs) -> None:
    """Print an error of a thread, but not the one of a pool that breaks while it grows.

    Python before 3.12 then counts processes that are just being started, and its thread fails.
    """
    if error.exc_type is not RuntimeError or "during iteration" not in str(error.exc_value):
        threading.__excepthook__(error)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Keep interrupts of the keyboard from the processes that start in this block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def be_worker(parent: int, numbers, on_gpus: bool) -> None:
    """Prepare a worker: it dies with its parent, whatever kills that, and has its own GPU if it
    uses one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    logger.disable("datatrove")  # the parent reports an error, so that the user sees it once
    if on_gpus and (gpus := visible_gpus()):  # torch takes seconds to say which there are
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[numbers.get() % len(gpus)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def visible_gpus() -> list[str]:
    """Return the names of the GPUs that this program may use."""
    import torch

    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named.split(",")
    return [str(k) for k in range(torch.cuda.device_count())]
