"""Score the runs of systems from what a metric counts in each sentence, as all tests need it.

Three tests say whether two systems differ whose trainings were repeated with several seeds:

- Could *these runs* have come out so if the systems were the same? Approximate randomisation
  deals the outputs of each sentence out again, over all runs of both systems (Clark et al. 2011,
  "Better Hypothesis Testing for Statistical Machine Translation", as MultEval does).
- Would *new trainings* come out so again, on these sentences? Welch's t test takes each run for one
  number. On other sentences, too? The bootstrap of statistics.py tells, and gives an interval.

Significant is what the two tests of new trainings say together: equal systems that are good at
different sentences deceive Welch's test, and two runs that differ much deceive the bootstrap.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as Computed

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.numbers import plain_number
from fairseq_posattn.lab.scoring.statistics import BATCH, Estimate, Floats, Resampled, drawn_counts

Counted = NDArray[np.float64]  # runs x sentences x sums of a metric


def seed_of_sacrebleu() -> int | None:
    """Return the seed of all samples, as sacrebleu reads it; None is another one each time."""
    text = os.environ.get("SACREBLEU_SEED", "12345").lower()
    seed = plain_number(text)
    if text != "none" and (seed is None or seed < 0):
        raise InputError(f"SACREBLEU_SEED is '{text}', expected a whole number or none")
    return seed


@dataclass(frozen=True)
class Samples:
    """Says how many samples each of the two tests draws, and the seed of both."""

    bootstrap: int = 1000
    randomisation: int = 10000
    seed: int | None = field(default_factory=seed_of_sacrebleu)

    def __str__(self) -> str:
        seed = "none" if self.seed is None else self.seed
        return f"bs:{self.bootstrap}|ar:{self.randomisation}|seed:{seed}"


# What sacrebleu's metrics can be; our own have an attribute `bounds`.
BOUNDS = {BLEU: (0.0, 100.0), CHRF: (0.0, 100.0), TER: (0.0, math.inf)}


class FromSums(Protocol):
    """This computes a score from what was counted in a text, as sacrebleu's metrics do."""

    def _compute_score_from_stats(self, stats: list[float]) -> Computed: ...


def counted_by(metric: Metric, runs: Sequence[Sequence[str]]) -> Counted:
    """Return what a metric, which holds its references, counts in each sentence of each run."""
    # sacrebleu's own tests call this method and the next one, which have no public names
    counted = [metric._extract_corpus_statistics(run, None) for run in runs]
    return np.array(counted, dtype=np.float64)


def computed_score(metric: FromSums, sums: NDArray[np.float64]) -> Computed:
    """Return what sacrebleu computes for a text from what was counted in it."""
    return metric._compute_score_from_stats(sums.tolist())


def score_of(metric: FromSums, sums: NDArray[np.float64]) -> float:
    """Return the score of a text from what was counted in it."""
    return float(computed_score(metric, sums).score)


def run_scores(metric: FromSums, runs: Counted) -> list[float]:
    """Return the score of each run."""
    return [score_of(metric, sums) for sums in runs.sum(axis=1)]


class Pair(NamedTuple):
    """This is what one metric counts in the runs of a baseline, and in those of a system."""

    metric: FromSums
    baseline: Counted
    system: Counted


def randomisation(pairs: Sequence[Pair], samples: Samples) -> list[float]:
    """Return for each metric how often outputs that were dealt out again differ at least as much.

    The outputs of each sentence are dealt out over all runs of both systems. That takes longest,
    so it is done once for all metrics, which count in the same outputs.
    """
    first = len(pairs[0].baseline)
    outputs = np.concatenate([np.concatenate([p.baseline, p.system]) for p in pairs], axis=-1)
    ends = np.cumsum([pair.system.shape[-1] for pair in pairs])[:-1]

    def gaps(sums: NDArray[np.float64]) -> Floats:
        found = [
            [score_of(pair.metric, of_run) for of_run in of_metric]
            for pair, of_metric in zip(pairs, np.split(sums, ends, axis=-1), strict=True)
        ]
        return np.array([abs(np.mean(one[first:]) - np.mean(one[:first])) for one in found])

    observed = gaps(outputs.sum(axis=1))
    dice, hits = np.random.default_rng(samples.seed), np.zeros(len(pairs))
    for dealt_out in dealt(outputs, samples.randomisation, dice):
        for sums in dealt_out:
            hits += gaps(sums) >= observed - 1e-9
    found: list[float] = ((hits + 1) / (samples.randomisation + 1)).tolist()
    return found


def dealt(
    outputs: Counted, samples: int, dice: np.random.Generator
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


def bootstrap(metric: FromSums, baseline: Counted, system: Counted, samples: Samples) -> Estimate:
    """Return by how much a system is above the baseline, by the same samples of sentences."""
    before, after = resampled(metric, [baseline, system], samples)
    return Estimate.of(after, before)


def interval(metric: FromSums, runs: Counted, samples: Samples) -> list[float]:
    """Return the ends of the interval of the mean score, for new runs and sentences."""
    [found] = resampled(metric, [runs], samples)
    return ends_of(metric, found)


def ends_of(metric: FromSums, found: Resampled) -> list[float]:
    """Return the ends of the interval of a mean, within what the metric can be."""
    least, most = getattr(metric, "bounds", BOUNDS.get(type(metric), (-math.inf, math.inf)))
    return [min(max(end, least), most) for end in Estimate.of(found).interval()]


def resampled(metric: FromSums, systems: Sequence[Counted], samples: Samples) -> list[Resampled]:
    """Return the scores of the runs of each system on the same samples of sentences."""
    dice = np.random.default_rng(samples.seed)
    found: list[list[list[float]]] = [[] for _ in systems]
    for counts in drawn_counts(systems[0].shape[1], samples.bootstrap, dice):
        for of_system, runs in zip(found, systems, strict=True):
            sums = np.stack([counts @ run for run in runs], axis=1)  # samples x runs x sums
            of_system += [[score_of(metric, one) for one in of_runs] for of_runs in sums]
    return [
        Resampled(np.array(run_scores(metric, runs)), np.array(drawn))
        for runs, drawn in zip(systems, found, strict=True)
    ]
