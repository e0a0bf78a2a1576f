"""Compute scores from per-sentence statistics, and test differences for significance.

Three tests compare two systems that were trained with several seeds:

- Do *these runs* differ more than by chance? Approximate randomisation permutes the outputs for
  each sentence over all runs of both systems (Clark et al. 2011, "Better Hypothesis Testing for
  Statistical Machine Translation", as in MultEval).
- Would *new training runs* differ on the same sentences? Welch's t-test, with one score per run.
- Would new training runs differ on *new sentences*? The bootstrap in statistics.py.

A difference is significant only if both Welch's test and the bootstrap find it significant.
Welch's test alone is unreliable if equally good systems are good at different sentences. The
bootstrap alone is unreliable if there are only two runs with very different scores.
"""

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
from fairseq_posattn.files.numbers import plain_number
from fairseq_posattn.scoring.statistics import BATCH, Estimate, Floats, Resampled, drawn_counts

Counted = NDArray[np.float64]  # runs x sentences x statistics of a metric
LARGEST = 1 << 31  # no sentence has so many n-grams


def seed_of_sacrebleu() -> int | None:
    """Return the random seed in the environment variable SACREBLEU_SEED (default: 12345).

    Returns None if its value is `none`.
    """
    text = os.environ.get("SACREBLEU_SEED", "12345").lower()
    seed = plain_number(text)
    if text != "none" and (seed is None or seed < 0):
        raise InputError(f"SACREBLEU_SEED is '{text}', expected a whole number or `none`")
    return seed


@dataclass(frozen=True)
class Samples:
    """The numbers of samples for the bootstrap and for randomisation, and the random seed."""

    bootstrap: int = 1000
    randomisation: int = 10000
    seed: int | None = field(default_factory=seed_of_sacrebleu)

    def __str__(self) -> str:
        seed = "none" if self.seed is None else self.seed
        return f"bs:{self.bootstrap}|ar:{self.randomisation}|seed:{seed}"


# The score ranges of sacrebleu's metrics; this package's metrics define `bounds` instead.
BOUNDS = {BLEU: (0.0, 100.0), CHRF: (0.0, 100.0), TER: (0.0, math.inf)}


class FromSums(Protocol):
    """A metric that computes a score from summed statistics, like sacrebleu's metrics."""

    def _compute_score_from_stats(self, stats: list[float]) -> Computed: ...


def counted_by(metric: Metric, runs: Sequence[Sequence[str]]) -> Counted:
    """Return the metric's statistics for each sentence of each run.

    The metric must have been created with the references.
    """
    # private methods, but sacrebleu's own significance tests call them too
    counted = [metric._extract_corpus_statistics(run, None) for run in runs]
    return np.array(counted, dtype=np.float64)


def written_statistics(counted: NDArray[np.float64]) -> str:
    """Format the statistics of one run, one line per sentence."""
    return "".join(f"{' '.join(f'{count:.0f}' for count in of_one)}\n" for of_one in counted)


def check_statistics(metric: Metric, name: str, lines: Sequence[str]) -> None:
    """Raise an InputError unless each line of a file contains statistics of the metric.

    name: name of the file, for the error message.
    """
    length = len(metric._extract_corpus_statistics([""] * len(lines), None)[0])
    for number, line in enumerate(lines, start=1):
        counts = [plain_number(word) for word in line.split(" ")]
        found = [count for count in counts if count is not None and 0 <= count < LARGEST]
        is_possible = getattr(metric, "is_possible", lambda counts: True)
        if len(found) != len(counts) or len(found) != length or not is_possible(found):
            raise InputError(
                f"{name}:{number}: expected the statistics of a sentence for the main score, found "
                f"'{line[:40]}'; store the runs again with posattn recipe table --keep"
            )


def read_statistics(runs: Sequence[Sequence[str]]) -> Counted:
    """Parse statistics that have been checked."""
    return np.array([[line.split(" ") for line in lines] for lines in runs], dtype=np.float64)


def score_of(metric: FromSums, sums: NDArray[np.float64]) -> float:
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def run_scores(metric: FromSums, runs: Counted) -> list[float]:
    return [score_of(metric, sums) for sums in runs.sum(axis=1)]


class Pair(NamedTuple):
    """A metric with its statistics for the runs of a baseline and of a system."""

    metric: FromSums
    baseline: Counted
    system: Counted


def randomisation(pairs: Sequence[Pair], samples: Samples) -> list[float]:
    """Return a p-value for each metric by approximate randomisation.

    The outputs for each sentence are permuted over all runs of both systems. This is slow, so all
    metrics share the same permutations.
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
    """Yield batches of permutations, each represented by the summed statistics of the runs.

    Batches are of shape (samples, runs, statistics). A matrix product adds up the statistics of the
    outputs that are assigned to a run.
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


def interval(metric: FromSums, runs: Counted, samples: Samples) -> list[float]:
    """Return the 95 % confidence interval of the mean score for new runs and sentences."""
    [found] = resampled(metric, [runs], samples)
    return ends_of(metric, found)


def ends_of(metric: FromSums, found: Resampled) -> list[float]:
    """Return the confidence interval of a mean, clipped to the metric's range."""
    least, most = getattr(metric, "bounds", BOUNDS.get(type(metric), (-math.inf, math.inf)))
    return [min(max(end, least), most) for end in Estimate.of(found).interval()]


def resampled(metric: FromSums, systems: Sequence[Counted], samples: Samples) -> list[Resampled]:
    """Score the runs of each system on the same bootstrap samples of sentences."""
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
