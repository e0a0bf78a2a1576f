"""Show two translations of a sentence side by side, with what differs marked."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from fairseq_posattn.lab.scoring.score_record import ComparedSentence, ScoredSystem

Parts = list[tuple[str, bool]]  # pieces of a text in their order, and whether they differ


def all_pairs(
    systems: Sequence[ScoredSystem],
) -> list[tuple[ScoredSystem, list[tuple[ComparedSentence, Parts, Parts]]]]:
    """Return the sentences on which a system differs most from its baseline, with the parts of the
    baseline's translation and of its own."""
    return [
        (system, [(one, *marked(one.baseline, one.translation)) for one in found])
        for system in systems
        if (found := (system.baseline and system.baseline.sentences) or [])
    ]


def marked(before: str, after: str) -> tuple[Parts, Parts]:
    """Return the parts of two texts, by words or, where there are no spaces, by characters."""
    space = " " if " " in before or " " in after else ""
    ours, theirs = (text.split() if space else list(text) for text in (after, before))
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    same: tuple[set[int], set[int]] = (set(), set())
    for block in matcher.get_matching_blocks():
        same[0].update(range(block.a, block.a + block.size))
        same[1].update(range(block.b, block.b + block.size))
    return joined(theirs, same[0], space), joined(ours, same[1], space)


def joined(units: Sequence[str], same: set[int], space: str) -> Parts:
    """Join neighbouring units that are all the same, or all differ."""
    numbered = [(unit, k not in same) for k, unit in enumerate(units)]
    return [
        (space.join(unit for unit, _ in group), differs)
        for differs, group in groupby(numbered, key=lambda one: one[1])
    ]
