"""Tests over several runs of two systems, against slow loops from their definitions."""

import itertools
import math
import random
import statistics
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from scipy import stats

from fairseq_posattn.errors import InputError
from fairseq_posattn.scoring.metrics.comparison import marked
from fairseq_posattn.scoring.metrics.runs import (
    Pair,
    Samples,
    counted_by,
    interval,
    randomisation,
    resampled,
    run_scores,
)
from fairseq_posattn.scoring.metrics.segment_scores import METRIC as MEAN
from fairseq_posattn.scoring.score_record import Difference
from fairseq_posattn.scoring.statistics import (
    Estimate,
    holm,
    median_interval,
    resampled_means,
    smallest_exact,
    two_sided,
    welch,
)

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one"]
WORDS += ["small", "dog", "near", "its", "door"]
METRICS = {"BLEU": BLEU, "chrF": CHRF, "TER": TER}


def text(seed: int, sentences: int = 20) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(4, 12))) for _ in range(sentences)]


def noisy(lines: list[str], rate: float, seed: int) -> list[str]:
    """Return a translation that has other words at a rate."""
    dice = random.Random(seed)
    return [
        " ".join(dice.choice(WORDS) if dice.random() < rate else word for word in line.split())
        for line in lines
    ]


REFERENCE = text(1)
GOOD = [noisy(REFERENCE, 0.25, seed) for seed in (2, 3, 4)]
WORSE = [noisy(REFERENCE, 0.28, seed) for seed in (5, 6)]


@pytest.fixture(params=METRICS)
def metric(request):
    return METRICS[request.param](references=[REFERENCE])


def mean_score(metric, runs) -> float:
    return statistics.mean(metric.corpus_score(run, None).score for run in runs)


def slow_randomisation(metric, baseline, system, samples: int) -> float:
    """The outputs of each sentence are shuffled over all runs, and whole texts are scored again."""
    dice, runs = random.Random(7), [*baseline, *system]
    observed = abs(mean_score(metric, system) - mean_score(metric, baseline))
    hits = 0
    for _ in range(samples):
        columns = [dice.sample(outputs, len(outputs)) for outputs in zip(*runs, strict=True)]
        texts = [list(lines) for lines in zip(*columns, strict=True)]
        first, rest = texts[: len(baseline)], texts[len(baseline) :]
        hits += abs(mean_score(metric, rest) - mean_score(metric, first)) >= observed - 1e-9
    return (hits + 1) / (samples + 1)


@pytest.mark.long(but=["BLEU-several"])
@pytest.mark.parametrize(
    ("first", "rest"), [(WORSE, GOOD), (WORSE[:1], GOOD[:1])], ids=["several", "one"]
)
def test_randomisation(metric, first, rest):
    slow = slow_randomisation(metric, first, rest, 200)
    tables = [counted_by(metric, runs) for runs in (first, rest)]
    [found] = randomisation([Pair(metric, *tables)], Samples(1, 1000, seed=1))
    assert found == pytest.approx(slow, abs=4 * math.sqrt(0.25 / 200))
    assert 0.001 < found < 0.9  # or the comparison would say little


def test_randomisation_of_several_metrics_is_that_of_each_alone():
    metrics = [one(references=[REFERENCE]) for one in METRICS.values()]
    pairs = [Pair(one, counted_by(one, WORSE), counted_by(one, GOOD)) for one in metrics]
    samples = Samples(1, 300, seed=1)
    alone = [randomisation([pair], samples)[0] for pair in pairs]
    assert randomisation(pairs, samples) == alone
    assert len(set(alone)) == len(alone)  # or it would not show which p belongs to which metric


def bootstrap(metric, baseline, system, samples: Samples) -> Estimate:
    before, after = resampled(metric, [baseline, system], samples)
    return Estimate.of(after, before)


def slow_samples(systems, samples: int) -> list[list[list[float]]]:
    """The BLEU of each run of each system on each sample of sentences; whole texts are scored."""
    dice, found = random.Random(8), []
    for _ in range(samples):
        chosen = dice.choices(range(len(REFERENCE)), k=len(REFERENCE))
        reference = [[REFERENCE[k] for k in chosen]]
        found.append(
            [
                [BLEU().corpus_score([run[k] for k in chosen], reference).score for run in runs]
                for runs in systems
            ]
        )
    return found


def slow_difference(systems, samples: int) -> tuple[float, float, float, float]:
    """The two parts of the variance of the difference, its degrees of freedom and its mean."""
    drawn = slow_samples(systems, samples)
    differences = [statistics.mean(after) - statistics.mean(before) for before, after in drawn]
    told = explained = doubt = 0.0
    for k, runs in enumerate(systems):
        spread = statistics.variance(
            BLEU().corpus_score(run, [REFERENCE]).score for run in runs
        ) / len(runs)
        own = [[score - statistics.mean(of[k]) for score in of[k]] for of in drawn]
        noise = sum(map(statistics.pvariance, zip(*own, strict=True))) / (len(runs) - 1)
        told, explained = told + spread, explained + noise / len(runs)
        doubt += spread**2 / (len(runs) - 1)
    of_sentences, of_runs = statistics.pvariance(differences), max(0.0, told - explained)
    freedom = max(of_sentences + of_runs, told) ** 2 / doubt
    return of_sentences, of_runs, freedom, statistics.mean(differences)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("apart", [False, True], ids=["like", "apart"])
def test_bootstrap_over_runs_and_sentences(apart):
    """The runs differ by no more than their sentences do, or by much more."""
    systems = [WORSE, GOOD]
    if apart:
        systems = [[WORSE[0], noisy(REFERENCE, 0.6, 7)], [*GOOD, noisy(REFERENCE, 0.02, 9)]]
    of_sentences, of_runs, freedom, middle = slow_difference(systems, 400)
    assert (of_runs > 20) == apart
    metric = BLEU(references=[REFERENCE])
    tables = [counted_by(metric, runs) for runs in systems]
    found = bootstrap(metric, *tables, Samples(3000, seed=1))
    assert found.of_sentences.var() == pytest.approx(of_sentences, rel=0.25)
    assert found.of_runs == pytest.approx(of_runs, rel=0.15)
    assert found.freedom == pytest.approx(freedom, rel=0.3)
    deviation = math.sqrt(of_sentences + of_runs)
    assert found.of_sentences.mean() == pytest.approx(middle, abs=deviation / 5)
    low, high = found.interval()
    width = 2 * stats.t(found.freedom).ppf(0.975) * deviation
    assert high - low == pytest.approx(width, rel=0.15)
    assert (found.p() < 0.05) == (not low <= 0 <= high)


def test_p_is_that_of_the_interval():
    """Where an end of the interval is moved to 0, p is 0.05; with one run p counts the samples."""
    dice = np.random.default_rng(1)
    skewed = dice.exponential(1.0, 4000)
    for freedom in (2.0, 7.5):
        for end in Estimate(skewed, 0.3, freedom).interval():
            assert Estimate(skewed - end, 0.3, freedom).p() == pytest.approx(0.05)
    assert Estimate(skewed, 0.0, math.inf).p() == two_sided(skewed)


def test_runs_that_are_one_another_add_nothing():
    numbers = np.random.default_rng(2).normal(size=(1, 300))
    alone = Estimate.of(resampled_means(numbers, 500, 1))
    thrice = Estimate.of(resampled_means(np.repeat(numbers, 3, axis=0), 500, 1))
    assert thrice.interval() == pytest.approx(alone.interval())


def drawn(dice, runs: int, spread: float, preference: float, gain: float = 0.0) -> list:
    """Draw what the runs of two systems get for 80 sentences, equal ones unless there is a gain.

    A sentence has a difficulty for all, a system a preference for some, and a run an effect.
    """
    difficulty = dice.normal(30, 5, 80)
    return [
        difficulty
        + dice.normal(better, preference, 80)
        + dice.normal(0, spread, (runs, 1))
        + dice.normal(0, 5, (runs, 80))
        for better in (0.0, gain)
    ]


def alarms(*kind, trials: int = 60) -> dict[str, float]:
    """How often each test calls two systems different."""
    dice, hits, samples = np.random.default_rng(3), Counter(), Samples(200, 60)
    for _ in range(trials):
        before, after = (np.stack([n, np.ones_like(n)], axis=-1) for n in drawn(dice, *kind))
        found = {
            "first runs": bootstrap(MEAN, before[:1], after[:1], samples).p(),
            "randomisation": randomisation([Pair(MEAN, before, after)], samples)[0],
            "bootstrap": bootstrap(MEAN, before, after, samples).p(),
            "Welch": welch(run_scores(MEAN, before), run_scores(MEAN, after)),
        }
        hits.update(name for name, p in found.items() if p < 0.05)
    return {name: hits[name] / trials for name in found}


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("spread, preference", [(0, 0), (4, 0), (0, 3), (1, 2)])
def test_equal_systems_are_rarely_called_different(runs, spread, preference):
    """Drawn with replacement, two runs that differ much raise an alarm in 15 % of the trials."""
    dice, hits, trials = np.random.default_rng(3), 0, 300
    for seed in range(trials):
        pair = (resampled_means(one, 200, seed) for one in drawn(dice, runs, spread, preference))
        hits += Estimate.of(*pair).p() < 0.05
    assert hits / trials < 0.085  # 0.05 and three deviations of a count


def test_sentences_that_systems_prefer_deceive_the_test_over_runs():
    found = alarms(5, 0, 6)
    assert found["Welch"] > 0.25 > 0.2 > found["bootstrap"]


@pytest.mark.long
def test_runs_that_differ_deceive_tests_over_sentences():
    without, large = (alarms(4, spread, 0, trials=120) for spread in (0, 4))
    assert max(without.values()) < 0.15  # 0.05, or less, with a deviation of 0.02
    assert min(large["first runs"], large["randomisation"]) > 0.4
    assert max(large["bootstrap"], large["Welch"]) < 0.15


@pytest.mark.long
def test_a_gain_is_found():
    assert min(alarms(3, 0, 0, 8).values()) > 0.9


def test_the_interval_of_a_median_covers_it_and_narrows():
    few, many = (median_interval([0.9, 1.0, 1.1] * n, 2000, seed=1) for n in (3, 60))
    assert 0.9 <= few[0] <= 1.0 <= few[1] <= 1.1
    assert many[1] - many[0] < few[1] - few[0]
    assert median_interval([1.0] * 15, 2000, seed=1) == (1.0, 1.0)


def test_the_interval_of_a_score():
    """With one run only the sentences are drawn; the ends are those of a slow bootstrap."""
    metric = TER(references=[REFERENCE])
    errors = counted_by(metric, GOOD[:1])[0]
    dice = random.Random(9)
    slow = []
    for _ in range(2000):
        drawn = dice.choices(errors.tolist(), k=len(errors))
        slow.append(100 * sum(a for a, _ in drawn) / sum(b for _, b in drawn))
    found = interval(metric, errors[None], Samples(2000, seed=1))
    assert found == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])), abs=1.5)
    several = interval(metric, counted_by(metric, GOOD), Samples(500, seed=1))
    assert several[0] < np.mean(run_scores(metric, counted_by(metric, GOOD))) < several[1]


@pytest.mark.parametrize("metric", [BLEU, CHRF, TER])
def test_no_interval_goes_beyond_what_the_score_can_be(metric):
    """Two runs that differ much have wide intervals."""
    by_reference = metric(references=[REFERENCE])
    runs = counted_by(by_reference, [REFERENCE, [line[::-1] for line in REFERENCE]])
    least, most = interval(by_reference, runs, Samples(200, seed=1))
    assert least == 0 and (metric is TER or most == 100)


def welch_by_formula(before, after) -> float:
    """Welch's t with Satterthwaite's degrees of freedom."""
    a, b = (statistics.variance(runs) / len(runs) for runs in (before, after))
    t = abs(statistics.mean(after) - statistics.mean(before)) / math.sqrt(a + b)
    freedom = (a + b) ** 2 / (a**2 / (len(before) - 1) + b**2 / (len(after) - 1))
    return 2 * stats.t(freedom).sf(t)


@pytest.mark.filterwarnings("error")
def test_welch():
    for before, after in (
        ([30.1, 30.5, 29.8], [31.0, 31.6, 31.1]),
        ([30.1, 30.5], [30.4, 33.0, 29.9, 30.3]),
        ([99.6, 99.6], [99.5, 99.6, 99.4]),  # runs of one score, as where all sentences are right
    ):
        assert welch(before, after) == pytest.approx(welch_by_formula(before, after))
        assert welch(after, before) == pytest.approx(welch(before, after))
    assert welch([30.0], [31.0, 32.0]) is None
    assert welch([30.0, 30.0], [30.0, 30.0]) == 1.0
    assert welch([30.0, 30.0], [31.0, 31.0]) is None  # such runs are one run twice


def test_without_scipy(monkeypatch):
    """It comes with the extra lab; a comparison of single runs goes without."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert welch([30.0], [31.0, 32.0]) is None
    with pytest.raises(InputError, match=r"need the package scipy; install it with pip install '"):
        welch([30.0, 31.0], [31.0, 32.0])


@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 2), (2, 3), (5, 3), (1, 1)])
def test_the_smallest_exact_p(before, after):
    """All ways to deal out the runs are tried, with numbers that differ as much as can be."""
    values = [0.0] * before + [1.0] * after
    observed = 1.0
    found = []
    for chosen in itertools.combinations(range(before + after), before):
        rest = [values[k] for k in range(before + after) if k not in chosen]
        difference = statistics.mean(rest) - statistics.mean(values[k] for k in chosen)
        found.append(abs(difference) >= observed - 1e-9)
    assert smallest_exact(before, after) == pytest.approx(sum(found) / len(found))


def test_marks_of_several_scores_are_those_after_holm():
    """The larger of two p values counts; the smallest of three scores is tripled, the next one
    doubled; what was not tested over runs stays."""
    untested = Difference(difference=1.0, bootstrap_p=0.001, mark="")
    tests = [(1.0, 0.012, 0.001, False), (1.0, 0.001, 0.03, False), (-1.0, 0.04, 0.04, True)]
    found = [
        (replace(untested, difference=difference, welch_p=welch_p, bootstrap_p=p), lower)
        for difference, welch_p, p, lower in tests
    ]
    every = dict(enumerate([*found, (untested, False)]))
    assert [one.mark for one in marked(every).values()] == ["↑", "", "", ""]


def slow_holm(values: list[float]) -> list[float]:
    """Holm's correction from its definition: the largest of all products up to the own rank."""
    ranked = sorted(values)
    found = []
    for value in values:
        products = [(len(values) - rank) * p for rank, p in enumerate(ranked) if p <= value]
        found.append(min(1.0, max(products)))
    return found


@pytest.mark.parametrize(
    "values", [[], [0.5], [0.01, 0.04, 0.03], [0.2, 0.2], [1.0, 0.0001], [0.3, 0.01, 0.02, 0.6]]
)
def test_holm(values):
    for order in itertools.permutations(values):
        assert holm(order) == pytest.approx(slow_holm(list(order)))
