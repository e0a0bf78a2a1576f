"""Take over numbers that another program gave the sentences, such as those of COMET or MetricX.

A file has one number a line. The score of a run is the mean of its numbers, and every test treats
it like the metrics of sacrebleu.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.metrics.runs import Statistics
from fairseq_posattn.io.files import read_lines

SIGNATURE = "segments:mean"
MEANING = "--segment-scores and --baseline-segment-scores take NAME=FILE, as in COMET=comet.txt"


class Mean(NamedTuple):
    """This is the score of a text, in the form of sacrebleu's scores."""

    score: float


@dataclass(frozen=True)
class MeanOfSegments:
    """This metric stands beside those of sacrebleu: its score is the mean of all numbers."""

    def _compute_score_from_stats(self, sums: Sequence[float]) -> Mean:
        """Return the mean, from the sum of the numbers and how many there are."""
        total, count = sums
        return Mean(total / count)


def read_segment_scores(given: Sequence[str], runs: int, sentences: int) -> dict[str, Statistics]:
    """Return what is summed up for each name: runs x sentences x 2, the numbers and ones.

    given: NAME=FILE for each run, in the order of the runs.
    """
    files: dict[str, list[str]] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise InputError(f"'{one}': {MEANING}")
        files.setdefault(name, []).append(path)
    return {name: table(name, paths, runs, sentences) for name, paths in files.items()}


def table(name: str, paths: Sequence[str], runs: int, sentences: int) -> Statistics:
    """Return the table of one name, after a check that it belongs to the translations."""
    if len(paths) != runs:
        raise InputError(
            f"{name}: there are {len(paths)} files of segment scores for {runs} translations; name "
            "one for each, in the same order"
        )
    numbers = [read_numbers(path, sentences) for path in paths]
    return np.stack([np.array(numbers), np.ones((runs, sentences))], axis=-1)


def read_numbers(path: str, sentences: int) -> list[float]:
    """Return the numbers of a file, one for each sentence."""
    found = [number(line, f"{path}:{k}") for k, line in enumerate(read_lines(path), start=1)]
    if len(found) != sentences:
        raise InputError(
            f"{path} has {len(found)} lines, but there are {sentences} sentences; score the same "
            "translation again"
        )
    return found


def number(line: str, where: str) -> float:
    """Return the number in a line."""
    try:
        found = float(line)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{where}: the line is '{line[:40]}', but a number is expected")
    return found


METRIC: Any = MeanOfSegments()
