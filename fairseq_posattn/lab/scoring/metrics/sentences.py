"""Find the sentences of a test set on which two systems differ most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.lab.scoring.metrics.runs import score
from fairseq_posattn.lab.scoring.metrics.scores import Translations
from fairseq_posattn.lab.scoring.score_record import ComparedSentence

METRIC = "chrF2"  # BLEU of a sentence says little: most have no four words in a row right


def sentence_scores(system: Translations) -> NDArray[np.float64]:
    """Return chrF2 of each sentence, of several runs the mean."""
    metric, table = system.scoring.metric(METRIC), system.tables[METRIC]
    return np.array([[score(metric, sums) for sums in run] for run in table]).mean(axis=0)


def most_different(
    baseline: Translations, system: Translations, source: Sequence[str] | None, count: int
) -> list[ComparedSentence]:
    """Return so many sentences that the system translates better, the best first, and as many that
    it translates worse, the worst last.

    source: the sentences of the source, or None if they are not at hand.
    """
    before, after = sentence_scores(baseline), sentence_scores(system)
    order = np.argsort(before - after, kind="stable").tolist()
    better = [k for k in order[:count] if after[k] > before[k]]
    worse = [k for k in order[len(order) - count :] if after[k] < before[k]] if count else []
    return [
        ComparedSentence(
            number=k,
            source=ABSENT if source is None else source[k],
            reference=system.scoring.references[0][k],
            translation=system.runs[0][k],
            baseline=baseline.runs[0][k],
            score=float(after[k]),
            baseline_score=float(before[k]),
        )
        for k in [*better, *worse]
    ]
