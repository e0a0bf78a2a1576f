"""Compare a system with a baseline: significance, gaps by n-grams, sentences that differ most.

One run of each system is compared by sacrebleu's paired tests, which say nothing of new trainings.
Several runs are compared by the tests of runs.py; Welch's and the bootstrap together give a mark.
All tests draw the same samples for the same SACREBLEU_SEED (12345 unless set).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.significance import PairedTest

from fairseq_posattn.io.records import ABSENT, known
from fairseq_posattn.lab.scoring.metrics.runs import (
    FromSums,
    Pair,
    Samples,
    randomisation,
    resampled,
    score_of,
)
from fairseq_posattn.lab.scoring.metrics.scores import TOKENISED, Translations
from fairseq_posattn.lab.scoring.score_record import ComparedSentence, Difference, Part
from fairseq_posattn.lab.scoring.statistics import Estimate, Resampled, holm, welch

ARROWS = ((0.01, "⇑", "⇓"), (0.05, "↑", "↓"))  # limit of p, sign of better, sign of worse
Compared = TypeVar("Compared", bound=Part)
OF_SENTENCES = "chrF2"  # BLEU of a sentence says little: most have no four words in a row right


def compared(
    baseline: Translations, system: Translations, samples: Samples
) -> dict[str, Difference]:
    """Return difference and p values, without a mark, for each of sacrebleu's metrics."""
    pairs = {
        name: Pair(metric, baseline.tables[name], system.tables[name])
        for name, metric in system.scoring.metrics.items()
        if name != TOKENISED
    }
    if len(baseline.runs) == len(system.runs) == 1:
        return {name: compared_pair(pair, samples) for name, pair in pairs.items()}
    return compared_runs(pairs, samples)


@dataclass(frozen=True)
class OfCounts:
    """This is a metric for sacrebleu's tests, which then take what it has counted for the texts:
    they would count each text once more for every test, which takes most of their time."""

    metric: FromSums

    def __getattr__(self, name: str) -> Any:
        return getattr(self.metric, name)

    def _extract_corpus_statistics(self, counted: NDArray[np.float64], _: None) -> Any:
        return counted


def compared_pair(pair: Pair, samples: Samples) -> Difference:
    """Return how the only run of a system differs from that of the baseline by one metric."""
    named = [("baseline", pair.baseline[0]), ("system", pair.system[0])]
    metrics: Any = {"metric": OfCounts(pair.metric)}

    def tested(kind: str, count: int) -> list[Any]:
        # each metric has its own test, as sacrebleu would take two kinds of BLEU for one
        _, scores = PairedTest(named, metrics, None, kind, count)()
        return next(results for column, results in scores.items() if column != "System")

    drawn, dealt = tested("bs", samples.bootstrap), tested("ar", samples.randomisation)
    difference = drawn[1].score - drawn[0].score
    # the tests count samples with a larger difference; equal systems have none, so p would be tiny
    return Difference(
        difference=difference,
        bootstrap_p=drawn[1].p_value if difference else 1.0,
        randomisation_p=dealt[1].p_value if difference else 1.0,
        mark="",
    )


def compared_runs(pairs: dict[str, Pair], samples: Samples) -> dict[str, Difference]:
    """Return how the means of two systems differ by each metric, by all tests."""
    dealt_out = randomisation(list(pairs.values()), samples) if pairs else []
    return {
        name: replace(
            gap(*resampled(pair.metric, [pair.baseline, pair.system], samples)), randomisation_p=p
        )
        for (name, pair), p in zip(pairs.items(), dealt_out, strict=True)
    }


def gap(baseline: Resampled, system: Resampled) -> Difference:
    """Return how the means of two systems differ by the tests that know of new trainings."""
    drawn, p = Estimate.of(system, baseline), welch(list(baseline.scores), list(system.scores))
    return Difference(
        difference=float(np.mean(system.scores) - np.mean(baseline.scores)),
        bootstrap_p=drawn.p(),
        welch_p=ABSENT if p is None else p,
        interval=list(drawn.interval()),
        mark="",
    )


def marked(differences: Iterable[tuple[Difference, bool]]) -> list[Difference]:
    """Return differences with the marks that they have after Holm over all of their tests.

    Each stands beside whether smaller scores are better. The larger p of Welch's test and of the
    bootstrap counts; a difference that was not tested over several runs keeps its mark.
    """
    pairs = list(differences)
    p = {k: found for k, (one, _) in enumerate(pairs) if (found := p_over_runs(one)) is not None}
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    return [
        replace(one, mark=arrow(one.difference, corrected[k], lower)) if k in corrected else one
        for k, (one, lower) in enumerate(pairs)
    ]


def with_marks(parts: Sequence[Compared]) -> list[Compared]:
    """Return parts of test sets with the marks that their differences have after Holm over all."""
    marks = iter(marked((part.difference, False) for part in parts if part.difference))
    return [replace(p, difference=next(marks)) if p.difference else p for p in parts]


def p_over_runs(one: Difference) -> float | None:
    """Return the larger p of the two tests that know of new trainings, or None without them."""
    both = known(one.welch_p), known(one.bootstrap_p)
    return None if None in both else max(both)


def arrow(difference: float, p: float, lower_is_better: bool = False) -> str:
    """Return the mark of a significant difference, which points up when the system is better."""
    if not difference:
        return ""
    better = (difference < 0) == lower_is_better
    return next((up if better else down for level, up, down in ARROWS if p < level), "")


def most_different(
    baseline: Translations, system: Translations, source: Sequence[str | None], count: int
) -> list[ComparedSentence]:
    """Return so many sentences that the system translates better, the best first, and as many that
    it translates worse, the worst last.

    source: the sentences of the source, each None if it is not known.
    """
    before, after = sentence_scores(baseline), sentence_scores(system)
    order = np.argsort(before - after, kind="stable").tolist()
    better = [k for k in order[:count] if after[k] > before[k]]
    worse = [k for k in order[::-1][:count] if after[k] < before[k]]
    return [
        ComparedSentence(
            number=k,
            source=ABSENT if source[k] is None else source[k],
            reference=system.scoring.references[0][k],
            translation=system.runs[0][k],
            baseline=baseline.runs[0][k],
            score=float(after[k]),
            baseline_score=float(before[k]),
        )
        for k in [*better, *reversed(worse)]
    ]


def sentence_scores(system: Translations) -> NDArray[np.float64]:
    """Return chrF2 of each sentence, of several runs the mean."""
    metric, table = system.scoring.metrics[OF_SENTENCES], system.tables[OF_SENTENCES]
    return np.array([[score_of(metric, sums) for sums in run] for run in table]).mean(axis=0)
