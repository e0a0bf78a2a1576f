"""Test whether a difference between two systems could be chance.

One run of each system is compared by sacrebleu's paired tests, which say nothing of new trainings.
Several runs are compared by the tests of runs.py, and only their Welch's t test gives a mark. All
tests draw the same samples for the same SACREBLEU_SEED (12345 unless set).
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.lab.scoring.cells import holm
from fairseq_posattn.lab.scoring.metrics.runs import Statistics, compared_runs
from fairseq_posattn.lab.scoring.metrics.scores import LOWER_IS_BETTER, Translations
from fairseq_posattn.lab.scoring.score_record import Difference

ARROWS = ((0.01, "⇑", "⇓"), (0.05, "↑", "↓"))  # limit of p, sign of better, sign of worse


@dataclass(frozen=True)
class Samples:
    """Says how many samples each of the two tests draws."""

    bootstrap: int = 1000
    randomisation: int = 10000

    def __str__(self) -> str:
        seed = "none" if self.seed is None else self.seed
        return f"bs:{self.bootstrap}|ar:{self.randomisation}|seed:{seed}"

    @property
    def seed(self) -> int | None:
        """Return the seed of all samples, as sacrebleu reads it; None is another one each time."""
        text = os.environ.get("SACREBLEU_SEED", "12345").lower()
        if text != "none" and not text.isdecimal():
            raise InputError(f"SACREBLEU_SEED is '{text}', expected a whole number or none")
        return None if text == "none" else int(text)


def compared(
    baseline: Translations, system: Translations, samples: Samples
) -> dict[str, Difference]:
    """Return difference, p values and mark for each of sacrebleu's metrics."""
    metrics = system.scoring.metrics
    if len(baseline.runs) == len(system.runs) == 1:
        pair = [baseline.runs[0], system.runs[0]]
        return {name: compared_pair(metric, pair, samples) for name, metric in metrics.items()}
    return {
        name: compared_tables(
            metric, baseline.tables[name], system.tables[name], samples, name in LOWER_IS_BETTER
        )
        for name, metric in metrics.items()
    }


def compared_pair(metric: Metric, systems: Sequence[Sequence[str]], samples: Samples) -> Difference:
    """Return how one run of a system differs from one of the baseline, without a mark."""
    bootstrap = paired_test(metric, systems, "bs", samples.bootstrap)
    randomisation = paired_test(metric, systems, "ar", samples.randomisation)
    difference = bootstrap[1].score - bootstrap[0].score
    # the tests count samples with a larger difference; equal systems have none, so p would be tiny
    return Difference(
        difference=difference,
        bootstrap_p=bootstrap[1].p_value if difference else 1.0,
        randomisation_p=randomisation[1].p_value if difference else 1.0,
        mark="",
    )


def compared_tables(
    metric: Metric,
    before: Statistics,
    after: Statistics,
    samples: Samples,
    lower_is_better: bool,
) -> Difference:
    """Return how runs differ, with a mark if new trainings would differ, too."""
    found = compared_runs(
        metric, before, after, samples.bootstrap, samples.randomisation, samples.seed
    )
    p = found.new_runs
    return Difference(
        difference=found.difference,
        bootstrap_p=found.resampled,
        randomisation_p=found.these_runs,
        welch_p=ABSENT if p is None else p,
        interval=list(found.interval),
        mark="" if p is None else mark(found.difference, p, lower_is_better),
    )


def after_holm(
    differences: dict[str, Difference], lower_is_better: Container[str]
) -> dict[str, Difference]:
    """Return the differences with marks for all scores of a system, corrected for their number."""
    tested = [name for name, found in differences.items() if found.welch_p is not ABSENT]
    corrected = holm([differences[name].welch_p or 0.0 for name in tested])
    marks = {
        name: mark(differences[name].difference, p, name in lower_is_better)
        for name, p in zip(tested, corrected, strict=True)
    }
    return {
        name: replace(found, mark=marks.get(name, found.mark))
        for name, found in differences.items()
    }


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
