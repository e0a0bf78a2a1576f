"""Say within what bounds a mean lies and whether two differ, by the one rule of all tables.

The sentences are drawn with replacement, the same ones for all runs, and each run is scored on
each sample. The variance of a
mean, or of the difference of two means, has two parts:

    of the sentences: the variance of the mean over all runs from sample to sample
    of new runs: s²/R for the scores of the R runs, less the part of it that their sentences explain

Few runs hardly tell their spread s, so quantiles are those of Student's t, with the degrees of
freedom of Satterthwaite (1946). To draw runs with replacement as well would count the noise of
sentences about three times (Owen 2007, "The pigeonhole bootstrap") and s² too small by (R - 1)/R.
One run tells nothing of new runs: what is left is the plain bootstrap over sentences.

tests/lab/scoring/test_statistics.py counts how often each test calls equal systems different.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.lab import lab_extra

Floats = NDArray[np.float64]
BATCH = 1 << 22  # this many numbers are drawn at once
ENDS = (0.025, 0.975)  # the quantiles at the ends of an interval
NORMAL = 1.959963984540054  # where these lie in a normal distribution


def holm(values: Sequence[float]) -> list[float]:
    """Return p values that are corrected for the number of tests (Holm 1979).

    The smallest p is multiplied by the number of tests, the next one by one less, and so on; a
    larger p never becomes smaller than the one before it.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = largest
    return corrected


def scipy_stats() -> Any:
    """Return scipy's tests and distributions, which only several runs need."""
    with lab_extra("tests over several runs need"):
        from scipy import stats
    return stats


def welch(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return p of Welch's t test, or None if a system has one run and so no deviation."""
    if min(len(before), len(after)) < 2:
        return None
    if np.ptp(before) == 0 == np.ptp(after):  # the test would divide by zero
        return 1.0 if before[0] == after[0] else None  # runs without any spread are no runs
    # from means and deviations, as scipy warns of rounding where all runs of one have one score
    figures = [(mean(runs), stdev(runs), len(runs)) for runs in (after, before)]
    found = scipy_stats().ttest_ind_from_stats(*figures[0], *figures[1], equal_var=False)
    return float(found.pvalue)


def smallest_exact(before: int, after: int) -> float:
    """Return the smallest p that an exact permutation of the runs could give, on two sides.

    There are (before + after over before) ways to deal the runs out, and the difference and its
    negative count.
    """
    ways = math.comb(before + after, before)
    return min(1.0, (2 if before == after else 1) / ways)


@dataclass(frozen=True)
class Resampled:
    """These are the scores of the runs of a system on all sentences, and on each sample of them.

    scores: a score for each run.
    drawn: samples x runs.
    """

    scores: Floats
    drawn: Floats

    @classmethod
    def mean_of(cls, parts: Sequence[Resampled]) -> Resampled:
        """Return the mean over parts of the test set, of which each counts the same."""
        scores, drawn = ([getattr(p, name) for p in parts] for name in ("scores", "drawn"))
        return cls(np.mean(scores, axis=0), np.mean(drawn, axis=0))

    @property
    def of_sentences(self) -> Floats:
        """Return the mean over all runs, in each sample."""
        found: Floats = self.drawn.mean(axis=1)
        return found

    @property
    def variance(self) -> float:
        """Return the variance of the mean that the spread of the runs tells: 0 for one run."""
        runs = len(self.scores)
        return float(self.scores.var(ddof=1)) / runs if runs > 1 else 0.0

    @property
    def explained(self) -> float:
        """Return the part of that variance which the noise of the sentences brings about."""
        runs = len(self.scores)
        own = self.drawn - self.drawn.mean(axis=1, keepdims=True)
        return float(own.var(axis=0).sum()) / (runs - 1) / runs if runs > 1 else 0.0


@dataclass(frozen=True)
class Estimate:
    """This is a mean, or a difference of means, with what is known of its error.

    of_sentences: its value in each sample of sentences.
    of_runs: the variance that new runs add.
    freedom: the degrees of freedom of the whole variance; infinite without several runs.
    """

    of_sentences: Floats
    of_runs: float
    freedom: float

    @classmethod
    def of(cls, system: Resampled, baseline: Resampled | None = None) -> Estimate:
        """Return the mean of a system, or by how much it is above that of a baseline."""
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
        """Return the bounds between which 95 % lie."""
        low, high = map(float, np.quantile(self.of_sentences, ENDS))
        if math.isinf(self.freedom):
            return low, high
        middle, below, above = self.errors(low, high)
        width = float(scipy_stats().t(self.freedom).ppf(ENDS[1]))
        return middle - width * below, middle + width * above

    def p(self) -> float:
        """Return the two-sided p of the hypothesis that it is 0; the bounds of p = 0.05 are those
        of the interval."""
        if math.isinf(self.freedom):
            return two_sided(self.of_sentences)
        low, high = map(float, np.quantile(self.of_sentences, ENDS))
        middle, below, above = self.errors(low, high)
        error = below if middle > 0 else above
        if not error:
            return two_sided(self.of_sentences)
        return float(2 * scipy_stats().t(self.freedom).sf(abs(middle) / error))

    def errors(self, low: float, high: float) -> tuple[float, float, float]:
        """Return the middle, and its standard errors downwards and upwards: scores are skewed."""
        middle, runs = float(self.of_sentences.mean()), math.sqrt(self.of_runs)
        below, above = (max(0.0, arm) / NORMAL for arm in (middle - low, high - middle))
        return middle, math.hypot(below, runs), math.hypot(above, runs)


def drawn_counts(sentences: int, samples: int, dice: np.random.Generator) -> Iterator[Floats]:
    """Yield samples in batches: how often each sentence was drawn, samples x sentences."""
    at_once = max(1, BATCH // sentences)
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        counts = dice.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)
        yield counts.astype(np.float64)


def resampled_means(numbers: Floats, samples: int, seed: int | None) -> Resampled:
    """Return the means of numbers, runs x sentences, on all sentences and on samples of them."""
    dice = np.random.default_rng(seed)
    sentences = numbers.shape[1]
    drawn = [counts @ numbers.T / sentences for counts in drawn_counts(sentences, samples, dice)]
    return Resampled(numbers.mean(axis=1), np.concatenate(drawn))


def two_sided(differences: Floats) -> float:
    """Return p from the samples of a bootstrap: twice the share of the rarer sign."""
    below, above = (differences <= 0).sum(), (differences >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1)))


def median_interval(numbers: Sequence[float], samples: int, seed: int) -> tuple[float, float]:
    """Return the bounds of 95 % of the median of numbers that were measured one by one."""
    dice = np.random.default_rng(seed)
    medians = np.median(dice.choice(numbers, (samples, len(numbers))), axis=1)
    low, high = map(float, np.quantile(medians, ENDS))
    return low, high
