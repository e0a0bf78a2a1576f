"""Show two translations of a sentence side by side, with what differs marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from fairseq_posattn.lab.scoring.score_record import ScoredSystem

Parts = list[tuple[str, bool]]  # pieces of a text in their order, and whether they differ


@dataclass(frozen=True)
class Pair:
    """This is a sentence with its two translations, in which the parts that differ are known."""

    number: int
    source: str
    reference: str
    baseline: Parts
    system: Parts
    baseline_score: str
    score: str
    difference: str


def all_pairs(systems: Sequence[ScoredSystem]) -> list[tuple[ScoredSystem, list[Pair]]]:
    """Return the sentences of each system, where it was compared with a baseline."""
    found = [(system, list(pairs(system))) for system in systems]
    return [(system, of_system) for system, of_system in found if of_system]


def pairs(system: ScoredSystem) -> Iterator[Pair]:
    """Yield the sentences on which a system differs most from its baseline."""
    for found in (system.baseline and system.baseline.sentences) or []:
        yield Pair(
            found.number,
            found.source or "",
            found.reference,
            *marked(found.baseline, found.translation),
            f"{found.baseline_score:.1f}",
            f"{found.score:.1f}",
            f"{found.score - found.baseline_score:+.1f}",
        )


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
