"""Test whether two systems differ whose trainings were repeated with several seeds.

Three tests answer two questions:

- Could *these runs* have come out so if the systems were the same? Approximate randomisation
  deals the outputs of each sentence out again, over all runs of both systems (Clark et al. 2011,
  "Better Hypothesis Testing for Statistical Machine Translation", as MultEval does).
- Would *new trainings* come out so again? Welch's t test takes each run for one number. The
  bootstrap draws runs and sentences, and gives an interval, too.

Only an answer to the second question is called significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric, Score

Statistics = NDArray[np.float64]  # runs x sentences x sums of a metric
BATCH = 1 << 22  # this many numbers are drawn at once


@dataclass(frozen=True)
class RunDifference:
    """This says how the means of two systems differ.

    difference: the mean score of the system minus that of the baseline.
    these_runs: p of stratified approximate randomisation over the outputs of these runs.
    new_runs: p of Welch's t test over the scores, or None if a system has one run.
    resampled: p of the bootstrap over runs and sentences.
    interval: the difference lies in it in 95 % of the samples of the bootstrap.
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
        resampled=two_sided(drawn),
        interval=(float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))),
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
    metric: Metric, baseline: Statistics, system: Statistics, samples: int, seed: int | None
) -> NDArray[np.float64]:
    """Return the differences of samples of runs and sentences, drawn with replacement.

    Both systems have the same sentences in a sample.
    """
    dice = np.random.default_rng(seed)
    means = np.array(list(mean_scores(metric, [baseline, system], samples, dice)))
    return means[:, 1] - means[:, 0]


def interval(
    metric: FromSums, runs: Statistics, samples: int, seed: int | None
) -> tuple[float, float]:
    """Return where the mean score lies in 95 % of the samples of runs and sentences."""
    means = list(mean_scores(metric, [runs], samples, np.random.default_rng(seed)))
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def mean_scores(
    metric: FromSums, systems: Sequence[Statistics], samples: int, dice: np.random.Generator
) -> Iterator[list[float]]:
    """Yield for each sample of sentences the mean score of each system over a sample of its runs.

    A sentence that is drawn twice counts twice.
    """
    sentences = systems[0].shape[1]
    at_once = max(1, BATCH // sentences)
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        counts = dice.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)
        sums = [counts.astype(np.float64) @ runs for runs in systems]  # runs x samples x sums
        for k in range(size):
            yield [mean_of_drawn(metric, of_runs[:, k], dice) for of_runs in sums]


def mean_of_drawn(metric: FromSums, sums: NDArray[np.float64], dice: np.random.Generator) -> float:
    """Return the mean score of as many runs as there are, drawn with replacement."""
    drawn = dice.integers(len(sums), size=len(sums)).tolist()
    found = {run: score(metric, sums[run]) for run in set(drawn)}
    return sum(found[run] for run in drawn) / len(drawn)


def two_sided(differences: NDArray[np.float64]) -> float:
    """Return p from the samples of a bootstrap: twice the share of the rarer sign."""
    below, above = (differences <= 0).sum(), (differences >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1)))


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
