"""Segment scores computed by other programs, such as COMET or MetricX.

A file contains one number per line. The score of a run is the mean of its numbers. Differences
are tested by the tests in runs.py, even for single runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sacrebleu.metrics.base import Score as Computed

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.numbers import decimal_number
from fairseq_posattn.scoring.inspection_record import LARGEST, is_number
from fairseq_posattn.scoring.metrics.comparison import compared_runs
from fairseq_posattn.scoring.metrics.runs import Counted, Pair, Samples
from fairseq_posattn.scoring.metrics.scores import NIST, TOKENISED, mean_score
from fairseq_posattn.scoring.metrics.texts import Texts
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import EXACT, SEGMENTS, Difference, Score

MEANING = "--segment-scores and --baseline-segment-scores expect NAME=FILE, such as COMET=comet.txt"


class MeanOfSegments:
    """The mean of segment scores; its statistics are their sum and their count."""

    def _compute_score_from_stats(self, stats: list[float]) -> Computed:
        return Computed("mean", stats[0] / stats[1])


METRIC = MeanOfSegments()
RESERVED = ("BLEU", "chrF2", "chrF2++", "TER", TOKENISED, NIST, EXACT)


@dataclass(frozen=True)
class SegmentScores:
    """Segment scores for the runs of a system and of its baseline.

    system, baseline: the scores by name; the baseline may lack some of them.
    lower_is_better: the names of the scores for which lower values are better.
    """

    system: dict[str, Counted]
    baseline: dict[str, Counted]
    lower_is_better: Sequence[str]

    @classmethod
    def read(cls, request: ScoreRequest, texts: Texts) -> SegmentScores:
        """Read the requested files.

        Raises InputError if a name is unknown, or if a file does not have one number per sentence.
        """
        sentences = len(texts.system[0].lines)
        system = read_segment_scores(request.segment_scores, len(texts.system), sentences)
        baseline = read_segment_scores(
            request.baseline_segment_scores, len(texts.baseline), sentences
        )
        for name in (*baseline, *request.lower_is_better):
            if name not in system:
                raise InputError(f"{name} has no segment scores; add --segment-scores {name}=FILE")
        return cls(system, baseline, request.lower_is_better)

    def scores(self, samples: Samples) -> dict[str, Score]:
        """Return the mean scores by name, with standard deviation and confidence interval."""
        found = {n: mean_score(METRIC, t, SEGMENTS, samples) for n, t in self.system.items()}
        for name in self.lower_is_better:
            found[name] = replace(found[name], lower_is_better=True)
        return found

    def compared(self, samples: Samples) -> dict[str, Difference]:
        pairs = {
            name: Pair(METRIC, table, self.system[name]) for name, table in self.baseline.items()
        }
        return compared_runs(pairs, samples)


def read_segment_scores(given: Sequence[str], runs: int, sentences: int) -> dict[str, Counted]:
    """Return an array of shape (runs, sentences, 2) for each score: the values and the count 1.

    given: arguments NAME=FILE, one per score and run, in the order of the runs.
    """
    files: dict[str, list[str]] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise InputError(f"found '{one}', but {MEANING}")
        if name in RESERVED:
            raise InputError(f"'{one}': {name} is a built-in score; choose another name")
        files.setdefault(name, []).append(path)
    return {name: table(name, paths, runs, sentences) for name, paths in files.items()}


def table(name: str, paths: Sequence[str], runs: int, sentences: int) -> Counted:
    """Read the files of one score, one per run, and check their lengths."""
    if len(paths) != runs:
        raise InputError(
            f"{name} has {len(paths)} files of segment scores for {runs} translations; give one "
            "file for each, in the same order"
        )
    numbers = [read_numbers(path, sentences) for path in paths]
    return np.stack([np.array(numbers), np.ones((runs, sentences))], axis=-1)


def read_numbers(path: str, sentences: int) -> list[float]:
    """Read the numbers in a file, one per sentence."""
    found = []
    for k, line in enumerate(read_lines(path), start=1):
        number = decimal_number(line.strip(" \t\r"))
        if number is None or not is_number(number):
            raise InputError(
                f"{path}:{k}: found '{line[:40]}', expected a number such as -0.5 or 1e-3, within "
                f"±{LARGEST:.0e}"
            )
        found.append(number)
    if len(found) != sentences:
        raise InputError(
            f"{path} has {len(found)} lines, but there are {sentences} sentences; compute the "
            "segment scores for this translation"
        )
    return found
