"""Train and evaluate several runs side by side, each on its share of the machine."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from fairseq_posattn.lab.experiments.machine import Share

Job = Callable[[Share], None]


def run_side_by_side(jobs: Sequence[Job], shares: Sequence[Share]) -> None:
    """Do all jobs, as many at once as there are shares; if one fails, begin no other.

    Those that are at work come to their end, because each of them is kept for the next start.
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
            # a signal must reach the main thread between two looks
            while wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION).not_done:
                if any(future.done() and future.exception() for future in futures):
                    break
        finally:
            for future in futures:
                future.cancel()
    for future in futures:
        if not future.cancelled():
            future.result()
