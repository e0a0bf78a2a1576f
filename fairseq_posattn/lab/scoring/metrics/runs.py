"""Test whether two systems differ whose trainings were repeated with several seeds.

Three tests answer two questions:

- Could *these runs* have come out so if the systems were the same? Approximate randomisation
  deals the outputs of each sentence out again, over all runs of both systems (Clark et al. 2011,
  "Better Hypothesis Testing for Statistical Machine Translation", as MultEval does).
- Would *new trainings* come out so again, on these sentences? Welch's t test takes each run for one
  number. On other sentences, too? The bootstrap of resampling.py tells, and gives an interval.

Only Welch's answer is called significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric, Score

from fairseq_posattn.lab.scoring.metrics.resampling import (
    BATCH,
    Estimate,
    Resampled,
    drawn_counts,
)

Statistics = NDArray[np.float64]  # runs x sentences x sums of a metric


@dataclass(frozen=True)
class RunDifference:
    """This says how the means of two systems differ.

    difference: the mean score of the system minus that of the baseline.
    these_runs: p of stratified approximate randomisation over the outputs of these runs.
    new_runs: p of Welch's t test over the scores, or None if a system has one run.
    resampled: p of the bootstrap, for new runs and sentences.
    interval: the interval of 95 % of the bootstrap.
    """

    difference: float
    these_runs: float
    new_runs: float | None
    resampled: float
    interval: tuple[float, float]


def statistics_of(metric: Metric, runs: Sequence[Sequence[str]]) -> Statistics:
    """Return what a metric, which holds its references, counts in each sentence of each run."""
    # sacrebleu's own tests call this method and the next one, which have no public names
    counted = [metric._extract_corpus_statistics(run, None) for run in runs]
    return np.array(counted, dtype=np.float64)


class FromSums(Protocol):
    """This computes a score from what was counted in a text, as sacrebleu's metrics do."""

    def _compute_score_from_stats(self, stats: list[float]) -> Score: ...


def computed_score(metric: FromSums, sums: NDArray[np.float64]) -> Score:
    """Return what sacrebleu computes for a text from what was counted in it."""
    return metric._compute_score_from_stats(sums.tolist())


def score(metric: FromSums, sums: NDArray[np.float64]) -> float:
    """Return the score of a text from what was counted in it."""
    return float(computed_score(metric, sums).score)


def scores(metric: FromSums, runs: Statistics) -> list[float]:
    """Return the score of each run."""
    return [score(metric, sums) for sums in runs.sum(axis=1)]


def compared_runs(
    metric: Metric,
    baseline: Statistics,
    system: Statistics,
    resamples: int,
    deals: int,
    seed: int | None,
) -> RunDifference:
    """Return how two systems differ by one metric, with all tests.

    resamples, deals: how many samples the bootstrap and the randomisation draw.
    """
    before, after = scores(metric, baseline), scores(metric, system)
    drawn = bootstrap(metric, baseline, system, resamples, seed)
    return RunDifference(
        difference=float(np.mean(after) - np.mean(before)),
        these_runs=randomisation(metric, baseline, system, deals, seed),
        new_runs=welch(before, after),
        resampled=drawn.p(),
        interval=drawn.interval(),
    )


def randomisation(
    metric: Metric, baseline: Statistics, system: Statistics, samples: int, seed: int | None
) -> float:
    """Return how often outputs that were dealt out again differ at least as much as these.

    The outputs of each sentence are dealt out over all runs of both systems.
    """
    outputs = np.concatenate([baseline, system])
    first = len(baseline)
    observed = abs(gap(metric, outputs.sum(axis=1), first))
    dice, hits = np.random.default_rng(seed), 0
    for sums in dealt(outputs, samples, dice):
        hits += sum(abs(gap(metric, of_runs, first)) >= observed - 1e-9 for of_runs in sums)
    return (hits + 1) / (samples + 1)


def gap(metric: Metric, sums: NDArray[np.float64], first: int) -> float:
    """Return how much higher the mean score of the later runs is than that of the first ones."""
    found = [score(metric, of_run) for of_run in sums]
    return float(np.mean(found[first:]) - np.mean(found[:first]))


def dealt(
    outputs: Statistics, samples: int, dice: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """Yield samples in batches: the sums of each run after the outputs were dealt out again.

    samples x runs x sums; a product of matrices adds up what falls to one run.
    """
    runs, sentences, sums = outputs.shape
    flat = outputs.transpose(1, 0, 2).reshape(sentences * runs, sums)
    at_once = max(1, BATCH // (sentences * runs * runs))
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        order = dice.random((size, sentences, runs)).argsort(axis=-1)  # output -> run
        falls = (
            order[:, None] == np.arange(runs)[None, :, None, None]
        )  # sample, run, sentence, output
        yield falls.reshape(size, runs, -1).astype(np.float64) @ flat


def bootstrap(
    metric: FromSums, baseline: Statistics, system: Statistics, samples: int, seed: int | None
) -> Estimate:
    """Return by how much a system is above the baseline, by the same samples of sentences."""
    before, after = resampled(metric, [baseline, system], samples, seed)
    return Estimate.of(after, before)


def interval(
    metric: FromSums, runs: Statistics, samples: int, seed: int | None
) -> tuple[float, float]:
    """Return the interval of the mean score, for new runs and sentences."""
    [found] = resampled(metric, [runs], samples, seed)
    return Estimate.of(found).interval()


def resampled(
    metric: FromSums, systems: Sequence[Statistics], samples: int, seed: int | None
) -> list[Resampled]:
    """Return the scores of the runs of each system on the same samples of sentences."""
    dice = np.random.default_rng(seed)
    found: list[list[list[float]]] = [[] for _ in systems]
    for counts in drawn_counts(systems[0].shape[1], samples, dice):
        for of_system, runs in zip(found, systems, strict=True):
            sums = np.stack([counts @ run for run in runs], axis=1)  # samples x runs x sums
            of_system += [[score(metric, one) for one in of_runs] for of_runs in sums]
    return [
        Resampled(np.array(scores(metric, runs)), np.array(drawn))
        for runs, drawn in zip(systems, found, strict=True)
    ]


def welch(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return p of Welch's t test, or None if a system has one run and so no deviation."""
    from scipy import stats

    if min(len(before), len(after)) < 2:
        return None
    if np.ptp(before) == 0 == np.ptp(after):  # the test would divide by zero
        return 1.0 if before[0] == after[0] else None  # runs without any spread are no runs
    return float(stats.ttest_ind(after, before, equal_var=False).pvalue)


def smallest_exact(before: int, after: int) -> float:
    """Return the smallest p that an exact permutation of the runs could give, on two sides.

    There are (before + after over before) ways to deal the runs out, and the difference and its
    negative count.
    """
    ways = math.comb(before + after, before)
    return min(1.0, (2 if before == after else 1) / ways)
