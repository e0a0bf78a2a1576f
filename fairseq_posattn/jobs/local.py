"""Process shards on this machine with a process pool."""

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

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.lines import LineWork, do_shard

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def run_here(work: LineWork, cluster: Cluster, on_done: Callable[[int], None]) -> None:
    """Process all unfinished shards.

    If workers are killed, the shards are retried. An InputError is raised if this happens three
    times in a row and no shard is finished in between.
    """
    deaths = 0
    while pending := work.pending():
        try:
            do_with_pool(work, pending, cluster.workers or 1, on_done)
        except BrokenProcessPool:
            deaths = 0 if len(work.pending()) < len(pending) else deaths + 1
            if deaths == 3:
                raise InputError(
                    "workers were killed three times in a row before they finished a shard, "
                    "perhaps because memory ran out; run the same command with fewer --workers to "
                    "resume, or start again with a smaller --max-words"
                ) from None
            logging.warning("a worker was killed; retrying the unfinished shards")


def do_with_pool(
    work: LineWork, shards: list[int], workers: int, on_done: Callable[[int], None]
) -> None:
    """Process these shards in a new process pool, and call `on_done` after each shard."""
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    workers = min(workers, len(shards))
    for number in range(workers):
        numbers.put(number)
    pool = ProcessPoolExecutor(
        workers, context, be_worker, (os.getpid(), numbers, work.step.on_gpus)
    )
    before, threading.excepthook = threading.excepthook, print_unless_of_the_pool
    try:
        with interrupts_blocked():  # workers inherit this when `submit` starts them
            futures = {submit(pool, do_shard, work, k): k for k in shards}
        for future in as_completed(futures):
            future.result()
            on_done(futures[future])
    except (KeyboardInterrupt, BrokenProcessPool):
        for worker in multiprocessing.active_children():  # shutdown would wait for their shards
            worker.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        threading.excepthook = before


def submit(pool: ProcessPoolExecutor, *call) -> Future:
    """Submit a call to the pool; raise a BrokenProcessPool if the pool breaks meanwhile.

    In this case, Python may raise an OSError (`handle is closed`) instead, which is converted.
    """
    try:
        return pool.submit(*call)
    except OSError as error:
        if error.errno is not None:  # the system cannot start another process
            raise
        raise BrokenProcessPool("a worker was killed while shards were being assigned") from error


def print_unless_of_the_pool(error: threading.ExceptHookArgs) -> None:
    """Print a thread's error, unless it occurs because a pool breaks while starting processes.

    Before Python 3.12, the pool's thread then fails while it iterates over the processes.
    """
    if error.exc_type is not RuntimeError or "during iteration" not in str(error.exc_value):
        threading.__excepthook__(error)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in all processes that are started in this block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def be_worker(parent: int, numbers, on_gpus: bool) -> None:
    """Initialise a worker: make it end with its parent process, and assign a GPU to it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if on_gpus and (gpus := visible_gpus()):  # importing torch takes seconds
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[numbers.get() % len(gpus)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def visible_gpus() -> list[str]:
    import torch

    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named.split(",")
    return [str(k) for k in range(torch.cuda.device_count())]
