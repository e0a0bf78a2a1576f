"""Compare the means of numbers that another program gave the sentences."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.metrics.runs import Statistics, interval
from fairseq_posattn.evaluation.metrics.runs import scores as run_scores
from fairseq_posattn.evaluation.metrics.score_texts import Texts
from fairseq_posattn.evaluation.metrics.scores import over_runs
from fairseq_posattn.evaluation.metrics.segment_scores import (
    METRIC,
    SIGNATURE,
    read_segment_scores,
)
from fairseq_posattn.evaluation.metrics.significance import Samples, compared_segments
from fairseq_posattn.evaluation.score_record import Difference, Score
from fairseq_posattn.io.records import ABSENT


@dataclass(frozen=True)
class SegmentScores:
    """These numbers were given to the sentences of each run by another program.

    system, baseline: a table for each name; the baseline may lack some of them.
    lower_is_better: the names of which a smaller score is better.
    """

    system: dict[str, Statistics]
    baseline: dict[str, Statistics]
    lower_is_better: Sequence[str]

    @classmethod
    def read(cls, args: argparse.Namespace, texts: Texts) -> SegmentScores:
        """Read the files that the options name, and check that they fit the translations."""
        sentences = len(texts.system[0].lines)
        system = read_segment_scores(args.segment_scores, len(texts.system), sentences)
        baseline = read_segment_scores(args.baseline_segment_scores, len(texts.baseline), sentences)
        for name in (*baseline, *args.lower_is_better):
            if name not in system:
                raise InputError(f"{name}: there are no --segment-scores {name}=FILE of the system")
        return cls(system, baseline, args.lower_is_better)

    def scores(self, samples: Samples) -> dict[str, Score]:
        """Return the mean of each name, with deviation and interval."""
        found = {}
        for name, table in self.system.items():
            of_runs = [
                Score(score=score, signature=SIGNATURE) for score in run_scores(METRIC, table)
            ]
            ends = interval(METRIC, table, samples.bootstrap, samples.seed)
            lower = True if name in self.lower_is_better else ABSENT
            found[name] = replace(over_runs(of_runs), interval=list(ends), lower_is_better=lower)
        return found

    def compared(self, samples: Samples) -> dict[str, Difference]:
        """Return how the means differ from those of the baseline, where it has such numbers."""
        return {
            name: compared_segments(table, self.system[name], samples, name in self.lower_is_better)
            for name, table in self.baseline.items()
        }
