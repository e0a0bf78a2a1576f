"""Estimate the cost of a preparation from two samples of its training pairs.

The whole preparation runs in a temporary folder on a small and on a larger sample. The difference
between the two costs yields the cost per line, and the rest is a fixed start-up cost. CPU time is
measured, because it hardly depends on other programs on the machine.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import resource
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import same_number_of_lines
from fairseq_posattn.io.progress import duration, say, size_of
from fairseq_posattn.preparation.corpus import ALIGN, Corpus
from fairseq_posattn.preparation.job import Job
from fairseq_posattn.preparation.pairs import evenly, write_sample
from fairseq_posattn.preparation.prepare import PreparationRun, given_alignments, given_trees
from fairseq_posattn.trees.conllu import read_blocks
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.made import Steps

SAMPLES = (500, 2000)  # the numbers of pairs in the samples
# Like the parse, these steps are distributed over the workers if a text is long.
BY_LINES = (
    *("normalize", "lowercase", "segment", "project", "align", "filter", "dictionaries"),
    "binarize",
)
LEAST = 20  # preparing a smaller corpus is faster than estimating its cost


@dataclass(frozen=True)
class Cost:
    """The cost of a step: CPU seconds and bytes of disk space."""

    seconds: float = 0.0
    disk: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.disk + other.disk)


class MeasuredSteps(Steps):
    """Runs steps, and records the total cost of each kind of step, such as `parse`."""

    def __init__(self, work: Path):
        super().__init__(work, tell=lambda text: None)
        self.costs: dict[str, Cost] = {}

    def do(self, name, choices, inputs, outputs, action, forget=None) -> None:
        kind, before = name.split(".")[0], processor_seconds()
        super().do(name, choices, inputs, outputs, action, forget)
        size = sum(Path(path).stat().st_size for path in outputs)
        cost = Cost(processor_seconds() - before, size)
        self.costs[kind] = self.costs.get(kind, Cost()) + cost


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of each kind of step.

    lines: the number of pairs in the corpus.
    measured: the sizes of the two samples.
    memory: the peak memory in bytes of this process and of a parser process.
    """

    lines: int
    measured: tuple[int, int]
    costs: dict[str, Cost]
    memory: tuple[int, int]

    def table(self, workers: int, binarizing: int, step_lines: int) -> str:
        """Return a table with the estimated cost of each step for a number of workers.

        binarizing: the number of processes that binarise a text that is not split into shards.
        step_lines: the number of lines per shard in steps other than parsing.
        """
        at_work = {"parse": workers, "binarize": binarizing}
        if self.lines > step_lines:
            at_work |= dict.fromkeys(BY_LINES, workers)
        named = f"with {workers} worker{'s' * (workers > 1)}"
        rows: list[tuple[str, ...]] = [("step", "core hours", "memory per process", "disk", named)]
        total, waiting = Cost(), 0.0
        for kind, cost in self.costs.items():
            seconds = cost.seconds / at_work.get(kind, 1)
            total, waiting = total + cost, waiting + seconds
            rows.append(row(kind, cost, self.memory[kind == "parse"], seconds))
        rows.append(row("all", total, max(self.memory), waiting))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
            for cells in rows
        ]
        few, many = self.measured
        return "\n".join(
            [
                f"{self.lines:,} pairs; measured on this machine with {few:,} and {many:,} of them",
                *lines,
            ]
        )


def row(kind: str, cost: Cost, memory: float, seconds: float) -> tuple[str, ...]:
    return (
        kind,
        f"{cost.seconds / 3600:,.3f}" if cost.seconds < 36000 else f"{cost.seconds / 3600:,.0f}",
        size_of(memory),
        size_of(cost.disk),
        duration(seconds),
    )


def estimate(job: Job) -> Estimate:
    """Measure the cost of two samples of the training pairs, and extrapolate it to all pairs."""
    languages = (job.config.source, job.config.target)
    lines = {
        split: same_number_of_lines(
            [
                *(f"{prefix}.{language}" for language in languages),
                *([given_alignments(prefix)] if job.is_aligned(split) else []),
            ]
        )
        for split, prefix in job.corpus.splits().items()
    }
    if lines["train"] < LEAST:
        raise InputError(
            f"{job.corpus.train}: the corpus has only {lines['train']} pairs, too few for an "
            "estimate; omit --plan"
        )
    many = min(SAMPLES[1], lines["train"])
    few = max(1, many * SAMPLES[0] // SAMPLES[1])
    costs = []
    for count in (few, many):
        say(f"measuring {count:,} of {lines['train']:,} training pairs ...")
        costs.append(measured(job, count, lines["train"]))
    everything = sum(lines.values())
    learnt = min(everything, job.learning.lines or everything)
    expected = {
        kind: extended(
            kind,
            costs[0].get(kind, Cost()),
            cost,
            (few, many),
            learnt if kind == "learn" else everything,
        )
        for kind, cost in costs[1].items()
    }
    memory = (most_memory(resource.RUSAGE_SELF), most_memory(resource.RUSAGE_CHILDREN))
    return Estimate(everything, (few, many), expected, memory)


def measured(job: Job, count: int, lines: int) -> Mapping[str, Cost]:
    """Prepare `count` training pairs in a temporary folder, and return the costs."""
    with tempfile.TemporaryDirectory() as name, quiet():
        folder = Path(name)
        write_corpus(job, folder, count, lines)
        corpus = Corpus(str(folder / "train"))
        own = replace(
            job,
            corpus=corpus,
            out=folder / "data",
            work=folder / "work",
            cluster=Cluster(),
            shard_lines=max(count, job.shard_lines),
            binarize_workers=1,
            shards=1,
        )
        steps = MeasuredSteps(own.work)
        PreparationRun(own, steps).run()
        return steps.costs


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output of the steps."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def write_corpus(job: Job, folder: Path, count: int, lines: int) -> None:
    """Write `count` evenly spaced training pairs, with their trees if --parser conllu is used."""
    prefix = job.corpus.train
    for kind in (job.config.source, job.config.target, *([ALIGN] if job.alignments else [])):
        write_sample(f"{prefix}.{kind}", folder / f"train.{kind}", count, lines)
    if job.config.parsed and job.config.parser.parser == "conllu":
        with open(folder / "train.conllu", "w", encoding="utf-8", newline="\n") as file:
            for block in evenly(read_blocks(given_trees(prefix)), count, lines):
                file.write("\n".join(block.lines) + "\n\n")


def extended(kind: str, one: Cost, two: Cost, sizes: Sequence[int], lines: int) -> Cost:
    """Extrapolate the cost of `lines` lines from the costs of two samples.

    The cost of learning a segmenter depends on the number of distinct words, which grows as a power
    of the number of lines; the exponent is estimated from the samples.
    """
    few, many = sizes
    if kind == "learn":
        ratio = max(two.seconds, 1e-9) / max(one.seconds, 1e-9)
        power = min(1.0, max(0.0, math.log(ratio) / math.log(many / few))) if many > few else 1.0
        return Cost(two.seconds * (lines / many) ** power, two.disk)
    return Cost(
        along(one.seconds, two.seconds, few, many, lines),
        along(one.disk, two.disk, few, many, lines),
    )


def along(one: float, two: float, few: int, many: int, lines: int) -> float:
    """Extrapolate linearly from samples of `few` and `many` lines; fixed costs are at least 0."""
    slope = (two - one) / (many - few) if many > few and two > one else two / many
    slope = min(slope, two / many)
    return two + slope * (lines - many)


def processor_seconds() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def most_memory(who: int) -> int:
    """Return the peak memory in bytes of this process or (RUSAGE_CHILDREN) of its largest child."""
    return resource.getrusage(who).ru_maxrss * 1024
