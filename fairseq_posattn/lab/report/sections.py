"""Collect the sections of the report that have figures, with their systems and test sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from fairseq_posattn.lab.report import tables
from fairseq_posattn.lab.report.figures import HALF, KINDS, THIRD, WORD_KINDS, Plotter
from fairseq_posattn.lab.report.systems import System, by_test

MEASURES = {"bleu": "BLEU", "precision": "precision"}
INTERVALS = "Thin lines are intervals of 95 %, for other sentences and, of several runs, trainings."


@dataclass(frozen=True)
class Part:
    """Holds what a section shows of one test set."""

    systems: list[System]
    figures: list[Markup]
    rows: dict[str, list] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Holds a heading and its figures, test set by test set."""

    id: str
    title: str
    parts: dict[str, Part]
    with_legend: bool = True
    whole: bool = False
    note: str = ""


def parts(
    systems: Sequence[System],
    has: Callable[[System], object],
    drawn: Callable[[list[System], str], list[str]],
) -> dict[str, Part]:
    """Return a part for each test set, with the systems that have something to show."""
    found = {}
    for k, (test, group) in enumerate(by_test([s for s in systems if has(s)]).items()):
        found[test] = Part(group, [Markup(figure) for figure in drawn(group, f"test{k}")])
    return found


def gaps(systems: Sequence[System], plotter: Plotter) -> dict[str, Part]:
    """Return figures and table of the gap to the baseline."""
    found = parts(
        systems,
        lambda system: (system.baseline or {}).get("ngrams"),
        lambda group, name: [plotter.gaps(group, m, f"gap-{m}-{name}") for m in MEASURES],
    )
    for part in found.values():
        part.rows.update({t: tables.gap_rows(part.systems, m) for m, t in MEASURES.items()})
    return found


def buckets(systems: Sequence[System], plotter: Plotter) -> Section:
    """Return the section that shows BLEU by kind of sentence."""

    def drawn(group: list[System], name: str) -> list[str]:
        kinds = [kind for kind in KINDS if any(system.buckets(kind) for system in group)]
        size = THIRD if len(kinds) == 3 else HALF
        return [plotter.buckets(group, kind, f"{kind}-{name}", size) for kind in kinds]

    found = parts(systems, lambda system: any(map(system.buckets, KINDS)), drawn)
    return Section("buckets", "BLEU by kind of sentence", found, note=INTERVALS)


def words(systems: Sequence[System], plotter: Plotter) -> Section:
    """Return the section that shows F1 by kind of word."""

    def drawn(group: list[System], name: str) -> list[str]:
        kinds = [kind for kind in WORD_KINDS if any(system.words(kind) for system in group)]
        return [plotter.words(group, kind, f"words-{kind}-{name}") for kind in kinds]

    found = parts(systems, lambda system: any(map(system.words, WORD_KINDS)), drawn)
    return Section("words", "F1 by kind of word", found, note=INTERVALS)


def speeds(systems: Sequence[System], plotter: Plotter) -> list[Section]:
    """Return the sections on the speed of translation and on the training."""
    decoding = parts(
        systems,
        lambda system: any(map(system.sentences_per_second, ("translation", "with_parsing"))),
        lambda group, name: [plotter.speed(group, f"speed-{name}")],
    )
    trained = {system.name: system for system in systems if system.training.get("curve")}
    curves = parts(
        [System(s.path, s.name, {**s.about, "test": ""}) for s in trained.values()],
        lambda system: True,
        lambda group, name: [plotter.curves(group, f"curves-{name}")],
    )
    note = "The curves show the loss on the validation data and, lighter, on the training data."
    return [
        Section("speed", "Speed", decoding, with_legend=False, whole=True),
        Section("curves", "Training", curves, whole=True, note=note),
    ]
