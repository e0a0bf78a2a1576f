"""Compare two translations of a sentence, and mark the words that differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from fairseq_posattn.lab.scoring.score_record import ComparedSentence, ScoredSystem

Parts = list[tuple[str, bool]]  # consecutive parts of a text, and whether they differ


def all_pairs(
    systems: Sequence[ScoredSystem],
) -> list[tuple[ScoredSystem, list[tuple[ComparedSentence, Parts, Parts]]]]:
    """Return for each system the sentences whose translations differ most from the baseline's.

    Each sentence is followed by the parts of the baseline's translation and those of the system's.
    """
    return [
        (system, [(one, *marked(one.baseline, one.translation)) for one in found])
        for system in systems
        if (found := (system.baseline and system.baseline.sentences) or [])
    ]


def marked(before: str, after: str) -> tuple[Parts, Parts]:
    """Split two texts into parts that are equal in both texts and parts that differ.

    The texts are compared word by word or, if they contain no spaces, character by character.
    """
    space = " " if " " in before or " " in after else ""
    ours, theirs = (text.split() if space else list(text) for text in (after, before))
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    same: tuple[set[int], set[int]] = (set(), set())
    for block in matcher.get_matching_blocks():
        same[0].update(range(block.a, block.a + block.size))
        same[1].update(range(block.b, block.b + block.size))
    return joined(theirs, same[0], space), joined(ours, same[1], space)


def joined(units: Sequence[str], same: set[int], space: str) -> Parts:
    """Merge adjacent words (or characters) that are equal in both texts, and those that differ."""
    numbered = [(unit, k not in same) for k, unit in enumerate(units)]
    return [
        (space.join(unit for unit, _ in group), differs)
        for differs, group in groupby(numbered, key=lambda one: one[1])
    ]
