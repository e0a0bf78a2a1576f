"""Test whether a difference between two systems could be chance, with sacrebleu's paired tests.

Both tests draw the same sentences for the same SACREBLEU_SEED (12345 unless set).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from fairseq_posattn.evaluation.metrics.scores import LOWER_IS_BETTER
from fairseq_posattn.evaluation.score_record import Difference

ARROWS = ((0.01, "⇑", "⇓"), (0.05, "↑", "↓"))  # limit of p, sign of better, sign of worse


@dataclass(frozen=True)
class Samples:
    """Says how many samples each of the two tests draws."""

    bootstrap: int = 1000
    randomisation: int = 10000

    def __str__(self) -> str:
        seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
        return f"bs:{self.bootstrap}|ar:{self.randomisation}|seed:{seed}"


def compared(
    metrics: Mapping[str, Metric],
    baseline: Sequence[str],
    hypotheses: Sequence[str],
    samples: Samples,
) -> dict[str, Difference]:
    """Return difference, p values and mark for each metric, which holds its references."""
    return {
        name: compared_by(name, metric, [baseline, hypotheses], samples)
        for name, metric in metrics.items()
    }


def compared_by(
    name: str, metric: Metric, systems: Sequence[Sequence[str]], samples: Samples
) -> Difference:
    """Return how the two systems differ by one metric."""
    bootstrap = paired_test(metric, systems, "bs", samples.bootstrap)
    randomisation = paired_test(metric, systems, "ar", samples.randomisation)
    difference = bootstrap[1].score - bootstrap[0].score
    # the tests count samples with a larger difference; equal systems have none, so p would be tiny
    p = bootstrap[1].p_value if difference else 1.0
    return Difference(
        difference=difference,
        bootstrap_p=p,
        randomisation_p=randomisation[1].p_value if difference else 1.0,
        mark=mark(difference, p, name in LOWER_IS_BETTER),
    )


def paired_test(metric: Metric, systems: Sequence[Sequence[str]], kind: str, samples: int) -> list:
    """Return sacrebleu's results of both systems, the baseline first."""
    # each metric has its own test, as sacrebleu would take two kinds of BLEU for one
    named = list(zip(("baseline", "system"), systems, strict=True))
    _, scores = PairedTest(named, {"metric": metric}, None, kind, samples)()
    return next(results for column, results in scores.items() if column != "System")


def mark(difference: float, p: float, lower_is_better: bool = False) -> str:
    """Return the arrow of a significant difference, which points up when the system is better."""
    if not difference:
        return ""
    better = (difference < 0) == lower_is_better
    for level, up, down in ARROWS:
        if p < level:
            return up if better else down
    return ""
