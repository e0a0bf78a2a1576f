"""Compare a system with a baseline: test significance, and find the sentences that differ most.

Single runs are compared by sacrebleu's paired tests, which do not account for the variance between
training runs. Several runs are compared by the tests in runs.py; a difference is marked only if
both Welch's test and the bootstrap find it significant. The environment variable
SACREBLEU_SEED (default: 12345) sets the random seed of all tests.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.significance import PairedTest

from fairseq_posattn.files.records import ABSENT, known
from fairseq_posattn.scoring.metrics.runs import (
    FromSums,
    Pair,
    Samples,
    randomisation,
    resampled,
    score_of,
)
from fairseq_posattn.scoring.metrics.scores import TOKENISED, Translations
from fairseq_posattn.scoring.score_record import ComparedSentence, Difference, Part
from fairseq_posattn.scoring.statistics import Estimate, Resampled, holm, welch

ARROWS = ((0.01, "⇑", "⇓"), (0.05, "↑", "↓"))  # upper limit of p, mark if better, mark if worse
Compared = TypeVar("Compared", bound=Part)
Key = TypeVar("Key", bound=Hashable)
OF_SENTENCES = "chrF2"  # not BLEU, because most sentences have no correct 4-gram


def compared(
    baseline: Translations, system: Translations, samples: Samples
) -> dict[str, Difference]:
    """Return each metric's difference and p-values, unmarked; skip tokenised BLEU."""
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
    """A metric for sacrebleu's tests that takes precomputed statistics instead of texts.

    Without this class, each test would recompute the statistics, which takes most of the time.
    """

    metric: FromSums

    def __getattr__(self, name: str) -> Any:
        return getattr(self.metric, name)

    def _extract_corpus_statistics(self, counted: NDArray[np.float64], _: None) -> Any:
        return counted


def compared_pair(pair: Pair, samples: Samples) -> Difference:
    """Compare one run of a system with one run of the baseline by one metric."""
    named = [("baseline", pair.baseline[0]), ("system", pair.system[0])]
    metrics: Any = {"metric": OfCounts(pair.metric)}

    def tested(kind: str, count: int) -> list[Any]:
        # one test per metric, because sacrebleu would confuse two kinds of BLEU
        _, scores = PairedTest(named, metrics, None, kind, count)()
        return next(results for column, results in scores.items() if column != "System")

    drawn, dealt = tested("bs", samples.bootstrap), tested("ar", samples.randomisation)
    difference = drawn[1].score - drawn[0].score
    # the tests count samples with a larger difference; without any difference, p would be tiny
    return Difference(
        difference=difference,
        bootstrap_p=drawn[1].p_value if difference else 1.0,
        randomisation_p=dealt[1].p_value if difference else 1.0,
        mark="",
    )


def compared_runs(pairs: dict[str, Pair], samples: Samples) -> dict[str, Difference]:
    """Compare several runs of two systems by each metric, with all significance tests."""
    dealt_out = randomisation(list(pairs.values()), samples) if pairs else []
    return {
        name: replace(
            gap(*resampled(pair.metric, [pair.baseline, pair.system], samples)), randomisation_p=p
        )
        for (name, pair), p in zip(pairs.items(), dealt_out, strict=True)
    }


def gap(baseline: Resampled, system: Resampled) -> Difference:
    """Compare the means of two systems by Welch's test and the bootstrap."""
    drawn, p = Estimate.of(system, baseline), welch(list(baseline.scores), list(system.scores))
    return Difference(
        difference=float(np.mean(system.scores) - np.mean(baseline.scores)),
        bootstrap_p=drawn.p(),
        welch_p=ABSENT if p is None else p,
        interval=list(drawn.interval()),
        mark="",
    )


def marked(differences: Mapping[Key, tuple[Difference, bool]]) -> dict[Key, Difference]:
    """Mark significant differences, after Holm's correction over all differences.

    differences: pairs of a difference and whether lower scores are better.

    The mark depends on the larger of the p-values of Welch's test and the bootstrap. Differences
    between single runs keep their mark.
    """
    found = {key: one for key, (one, _) in differences.items()}
    tested = {key: p for key, one in found.items() if (p := p_over_runs(one)) is not None}
    for key, corrected in zip(tested, holm(list(tested.values())), strict=True):
        one, lower_is_better = differences[key]
        found[key] = replace(one, mark=arrow(one.difference, corrected, lower_is_better))
    return found


def with_marks(parts: Mapping[Key, Compared]) -> dict[Key, Compared]:
    """Mark significant differences in parts of a test set (Holm's correction over all parts)."""
    marks = marked({key: (p.difference, False) for key, p in parts.items() if p.difference})
    return {k: replace(p, difference=marks[k]) if k in marks else p for k, p in parts.items()}


def p_over_runs(one: Difference) -> float | None:
    """Return the larger of the p-values of Welch's test and the bootstrap; None for single runs."""
    both = known(one.welch_p), known(one.bootstrap_p)
    return None if None in both else max(both)


def arrow(difference: float, p: float, lower_is_better: bool = False) -> str:
    """Return an arrow that marks a difference, upwards for a gain; "" if it is not significant."""
    if not difference:
        return ""
    better = (difference < 0) == lower_is_better
    return next((up if better else down for level, up, down in ARROWS if p < level), "")


def most_different(
    baseline: Translations, system: Translations, source: Sequence[str | None], count: int
) -> list[ComparedSentence]:
    """Return the sentences with the largest gains (largest first) and losses (largest last).

    source: the source sentences; None for unknown sentences.
    count: the maximum number of gains and of losses.
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
    """Return the chrF2 score of each sentence, averaged over the runs."""
    metric, table = system.scoring.metrics[OF_SENTENCES], system.tables[OF_SENTENCES]
    return np.array([[score_of(metric, sums) for sums in run] for run in table]).mean(axis=0)
