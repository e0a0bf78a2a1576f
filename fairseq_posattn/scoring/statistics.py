"""Confidence intervals of mean scores, and significance tests for their differences.

Bootstrap samples of sentences are drawn with replacement. Each run is scored on all of these
samples. The variance of a mean, or of a difference of means, has two components:

    sentences: the variance, over the bootstrap samples, of the mean over all runs
    new runs: s²/R, where s is the standard deviation of the scores of R runs, minus the part of
        this variance that is explained by the choice of sentences

With few runs, s is a poor estimate, so quantiles are those of Student's t-distribution with
Satterthwaite's (1946) degrees of freedom. Drawing runs with replacement as well would count the
run-by-sentence interaction about three times (Owen 2007, "The pigeonhole bootstrap") and
underestimate s² by the factor (R - 1)/R. For a single run, the method is the usual bootstrap over
sentences.

tests/scoring/test_statistics.py measures the false positive rate of each test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import lab_extra

Floats = NDArray[np.float64]
BATCH = 1 << 22  # maximum number of elements of an array of samples
ENDS = (0.025, 0.975)  # the quantiles at the ends of an interval
NORMAL = 1.959963984540054  # the 0.975 quantile of the standard normal distribution


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's (1979) correction for multiple tests, in the given order.

    Example:

        holm([0.01, 0.04, 0.03])  # [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = largest
    return corrected


def scipy_stats() -> Any:
    """Import scipy.stats, which is needed only for several runs."""
    with lab_extra("tests over several runs need"):
        from scipy import stats
    return stats


def welch(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the p-value of Welch's t-test, or None if the test is undefined.

    It is undefined for a single run, and if both systems have zero variance but different means.
    """
    if min(len(before), len(after)) < 2:
        return None
    if np.ptp(before) == 0 == np.ptp(after):  # the test would divide by zero
        return 1.0 if before[0] == after[0] else None
    # from means and deviations, because ttest_ind warns if all scores of a system are equal
    figures = [(mean(runs), stdev(runs), len(runs)) for runs in (after, before)]
    found = scipy_stats().ttest_ind_from_stats(*figures[0], *figures[1], equal_var=False)
    return float(found.pvalue)


def smallest_exact(before: int, after: int) -> float:
    """Return the smallest two-sided p-value of an exact permutation test on this many runs."""
    ways = math.comb(before + after, before)
    return min(1.0, (2 if before == after else 1) / ways)


@dataclass(frozen=True)
class Resampled:
    """The scores of a system's runs on all sentences and on bootstrap samples of the sentences.

    scores: one score per run.
    drawn: the scores on the bootstrap samples, of shape (samples, runs).
    """

    scores: Floats
    drawn: Floats

    @classmethod
    def mean_of(cls, parts: Sequence[Resampled]) -> Resampled:
        """Return the unweighted mean over several parts of the test set."""
        scores, drawn = ([getattr(p, name) for p in parts] for name in ("scores", "drawn"))
        return cls(np.mean(scores, axis=0), np.mean(drawn, axis=0))

    @property
    def of_sentences(self) -> Floats:
        """The mean over the runs, for each bootstrap sample."""
        found: Floats = self.drawn.mean(axis=1)
        return found

    @property
    def variance(self) -> float:
        """The variance of the mean as estimated from the runs: s²/R, or 0 for a single run."""
        runs = len(self.scores)
        return float(self.scores.var(ddof=1)) / runs if runs > 1 else 0.0

    @property
    def explained(self) -> float:
        """The part of `variance` that is due to the choice of sentences."""
        runs = len(self.scores)
        own = self.drawn - self.drawn.mean(axis=1, keepdims=True)
        return float(own.var(axis=0).sum()) / (runs - 1) / runs if runs > 1 else 0.0


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference of means, with its uncertainty.

    of_sentences: the estimated value on each bootstrap sample.
    of_runs: the additional variance due to new training runs.
    freedom: the degrees of freedom of the total variance; infinite for single runs.
    """

    of_sentences: Floats
    of_runs: float
    freedom: float

    @classmethod
    def of(cls, system: Resampled, baseline: Resampled | None = None) -> Estimate:
        """Estimate the mean of a system, or its difference from the mean of a baseline."""
        systems = [system] if baseline is None else [system, baseline]
        samples = system.of_sentences
        if baseline is not None:
            samples = samples - baseline.of_sentences
        told = sum(one.variance for one in systems)
        added = max(0.0, told - sum(one.explained for one in systems))
        doubt = sum(one.variance**2 / (len(one.scores) - 1) for one in systems if one.variance)
        whole = max(float(samples.var()) + added, told)
        return cls(samples, added, whole**2 / doubt if doubt else math.inf)

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval."""
        low, high = map(float, np.quantile(self.of_sentences, ENDS))
        if math.isinf(self.freedom):
            return low, high
        middle, below, above = self.errors(low, high)
        width = float(scipy_stats().t(self.freedom).ppf(ENDS[1]))
        return middle - width * below, middle + width * above

    def p(self) -> float:
        """Return the two-sided p-value for the null hypothesis that the estimated value is 0.

        The p-value is below 0.05 if `interval` excludes 0 (only approximately for single runs).
        """
        if math.isinf(self.freedom):
            return two_sided(self.of_sentences)
        low, high = map(float, np.quantile(self.of_sentences, ENDS))
        middle, below, above = self.errors(low, high)
        error = below if middle > 0 else above
        if not error:
            return two_sided(self.of_sentences)
        return float(2 * scipy_stats().t(self.freedom).sf(abs(middle) / error))

    def errors(self, low: float, high: float) -> tuple[float, float, float]:
        """Return the mean with separate lower and upper standard errors, as scores may be skewed.

        low, high: the ends of the bootstrap interval.
        """
        middle, runs = float(self.of_sentences.mean()), math.sqrt(self.of_runs)
        below, above = (max(0.0, arm) / NORMAL for arm in (middle - low, high - middle))
        return middle, math.hypot(below, runs), math.hypot(above, runs)


def drawn_counts(sentences: int, samples: int, dice: np.random.Generator) -> Iterator[Floats]:
    """Yield batches of bootstrap samples, as the number of times that each sentence was drawn.

    Batches are of shape (samples, sentences).
    """
    at_once = max(1, BATCH // sentences)
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        counts = dice.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)
        yield counts.astype(np.float64)


def resampled_means(numbers: Floats, samples: int, seed: int | None) -> Resampled:
    """Average an array of shape (runs, sentences) over all sentences and over bootstrap samples."""
    dice = np.random.default_rng(seed)
    sentences = numbers.shape[1]
    drawn = [counts @ numbers.T / sentences for counts in drawn_counts(sentences, samples, dice)]
    return Resampled(numbers.mean(axis=1), np.concatenate(drawn))


def two_sided(differences: Floats) -> float:
    """Return the two-sided bootstrap p-value: twice the share of the less frequent sign."""
    below, above = (differences <= 0).sum(), (differences >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1)))


def median_interval(numbers: Sequence[float], samples: int, seed: int) -> tuple[float, float]:
    """Return the bootstrap 95 % confidence interval of the median of independent numbers."""
    dice = np.random.default_rng(seed)
    medians = np.median(dice.choice(numbers, (samples, len(numbers))), axis=1)
    low, high = map(float, np.quantile(medians, ENDS))
    return low, high
