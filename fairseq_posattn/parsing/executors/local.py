"""Shards on this machine, each in a process of a pool."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from datatrove.executor import LocalPipelineExecutor
from datatrove.utils.logging import logger

from fairseq_posattn.errors import InputError
from fairseq_posattn.parsing.cluster import Cluster
from fairseq_posattn.parsing.executors.steps import ParseShard
from fairseq_posattn.parsing.sharded_parse import ShardedParse

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
QUIET = 1  # datatrove prints what the process with the local rank 0 does


def run_here(work: ShardedParse, cluster: Cluster, on_done: Callable[[int], None]) -> None:
    LocalExecutor(
        [ParseShard(work)],
        tasks=len(work.shards),
        workers=cluster.workers or 1,
        logging_dir=str(work.logs),
        on_done=on_done,
    ).run()


class LocalExecutor(LocalPipelineExecutor):
    """datatrove's, with a pool that tells a killed worker from a busy one: datatrove's own would
    wait for it for ever."""

    def __init__(self, *args, on_done: Callable[[int], None] = lambda rank: None, **kwargs):
        super().__init__(*args, **kwargs)
        self.on_done: Callable[[int], None] | None = on_done

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
        assert on_done is not None  # this is no worker
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
