"""Assemble the report sections: figures, tables, and translations of two systems side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from fairseq_posattn.report.figures import HALF, KINDS, THIRD, WORD_KINDS, Plotter, main_of
from fairseq_posattn.report.head_maps import MapGroup
from fairseq_posattn.report.score_tables import gap_table
from fairseq_posattn.report.systems import (
    buckets_of,
    by_test,
    curve_of,
    gaps_of,
    speed_of,
    words_of,
)
from fairseq_posattn.scoring.score_record import ComparedSentence, ScoredSystem
from fairseq_posattn.scoring.system_tables import part_tables
from fairseq_posattn.scoring.tables import Table

MEASURES = {"bleu": "BLEU", "precision": "precision"}
INTERVALS = "Thin lines are 95 % intervals over sentences and, for several runs, over runs."

Parts = list[tuple[str, bool]]  # consecutive parts of a text, and whether they differ


class TestSet(NamedTuple):
    """The systems, figures and tables of one test set in a section."""

    systems: list[ScoredSystem]
    figures: list[Markup]
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Section:
    """A report section with figures, grouped by test set."""

    id: str
    title: str
    tests: dict[str, TestSet]
    with_legend: bool = True
    whole: bool = False
    note: str = ""


@dataclass(frozen=True)
class ExtraSection:
    """An additional section with figures, tables and heat maps, such as the probing results."""

    id: str
    title: str
    figures: Sequence[Markup] = ()
    tables: Sequence[Table] = ()
    groups: Sequence[MapGroup] = ()


def by_test_set(
    systems: Sequence[ScoredSystem],
    has: Callable[[ScoredSystem], object],
    drawn: Callable[[list[ScoredSystem], str], list[str]],
) -> dict[str, TestSet]:
    """Group systems by test set, and draw the figures of each group.

    has: function that selects the systems to include.
    drawn: function that returns the figures of a group, given a suffix for their names.
    """
    tests = by_test(filter(has, systems))
    return {
        test: TestSet(group, [Markup(figure) for figure in drawn(group, f"test{k}")])
        for k, (test, group) in enumerate(tests.items())
    }


def gaps(systems: Sequence[ScoredSystem], plotter: Plotter) -> dict[str, TestSet]:
    """Return figures of the differences from the baseline by n-gram order, for each test set."""
    found = by_test_set(
        systems,
        gaps_of,
        lambda group, name: [plotter.gaps(group, m, f"gap-{m}-{name}") for m in MEASURES],
    )
    return {
        test: one._replace(tables=[gap_table(one.systems, m, t) for m, t in MEASURES.items()])
        for test, one in found.items()
    }


def grouped(systems: Sequence[ScoredSystem], plotter: Plotter) -> list[Section]:
    """Return the sections with the main score by sentence group and F1 by word group."""

    def buckets(group: list[ScoredSystem], name: str) -> list[str]:
        kinds = [kind for kind in KINDS if any(buckets_of(system, kind) for system in group)]
        size = THIRD if len(kinds) == 3 else HALF
        return [plotter.buckets(group, kind, f"{kind}-{name}", size) for kind in kinds]

    def subsets(group: list[ScoredSystem], name: str) -> list[str]:
        kinds = dict.fromkeys(kind for system in group for kind in system.subsets or ())
        return [plotter.subsets(group, k, f"subsets-{n}-{name}") for n, k in enumerate(kinds)]

    def words(group: list[ScoredSystem], name: str) -> list[str]:
        kinds = [kind for kind in WORD_KINDS if any(words_of(system, kind) for system in group)]
        return [plotter.words(group, kind, f"words-{kind}-{name}") for kind in kinds]

    of_sentences = by_test_set(systems, lambda s: any(buckets_of(s, k) for k in KINDS), buckets)
    of_labels = by_test_set(systems, lambda system: system.subsets, subsets)
    of_words = by_test_set(systems, lambda s: any(words_of(s, k) for k in WORD_KINDS), words)
    main = main_of([system for system in systems if system.parts])
    return [
        Section("buckets", f"{main} by kind of sentence", of_sentences, note=INTERVALS),
        Section("subsets", f"{main} by label", of_labels, whole=True, note=INTERVALS),
        Section("words", "F1 by kind of word", of_words, note=INTERVALS),
    ]


def parts(systems: Sequence[ScoredSystem]) -> list[ExtraSection]:
    """Return a section with tables of the scores for each label.

    Tables for ranges, such as sentence lengths, are added if a significance test was run on the
    ranges.
    """
    ranges = [
        one for system in systems for parts in (system.buckets or {}).values() for one in parts
    ]
    tested = any(one.difference for one in ranges)
    tables = part_tables(systems if tested else [replace(s, buckets={}) for s in systems])
    return [ExtraSection("parts", "Kinds of sentences in numbers", tables=tables)] if tables else []


def speeds(systems: Sequence[ScoredSystem], plotter: Plotter) -> list[Section]:
    decoding = by_test_set(
        systems,
        lambda system: speed_of(system, "translation") or speed_of(system, "with_parsing"),
        lambda group, name: [plotter.speed(group, f"speed-{name}")],
    )
    trained = {system.system: system for system in systems if curve_of(system)}
    curves = by_test_set(
        [replace(system, test="") for system in trained.values()],
        lambda system: True,
        lambda group, name: [plotter.curves(group, f"curves-{name}")],
    )
    note = "Loss on the validation data and, in a lighter colour, on the training data."
    return [
        Section("speed", "Speed", decoding, with_legend=False, whole=True),
        Section("curves", "Training", curves, whole=True, note=note),
    ]


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
