"""Compute exact match: the percentage of sentences that equal one of their references.

Leading and trailing spaces are ignored, and repeated spaces count as one. ExactMatch implements the
interface of sacrebleu's metrics, so all significance tests can use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as Computed
from sacrebleu.utils import sum_of_lists

from fairseq_posattn.scoring.score_record import EXACT


class ExactSignature(Signature):
    """The signature of exact match, which records whether case is ignored."""

    def __init__(self, args: dict[str, Any]):
        super().__init__(args)
        self.info["case"] = "lc" if args["lowercase"] else "mixed"


class ExactMatch(Metric):
    """The exact-match metric; its statistics are the numbers of matches and of sentences."""

    _SIGNATURE_TYPE = ExactSignature
    bounds = (0.0, 100.0)  # limits of its confidence intervals

    def __init__(self, references: Sequence[Sequence[str]], lowercase: bool = False):
        super().__init__()
        self.lowercase = lowercase
        self._ref_cache = self._cache_references(references)

    def is_possible(self, counts: Sequence[int]) -> bool:
        return counts[0] in (0, 1) and counts[1] == 1

    def _preprocess_segment(self, sent: str) -> str:
        text = " ".join(sent.split())
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"texts": set(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["texts"]), 1]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Computed:
        return Computed(EXACT, 100 * stats[0] / stats[1])

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Computed:
        return self._compute_score_from_stats(sum_of_lists(stats))
