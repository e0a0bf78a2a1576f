"""Build the tables of the report as rows of cells, in which the best of each column is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairseq_posattn.lab.report.figures import signed
from fairseq_posattn.lab.report.systems import System, by_test
from fairseq_posattn.lab.scoring.cells import holm
from fairseq_posattn.lab.scoring.metrics.significance import mark as arrow
from fairseq_posattn.lab.scoring.table import digits_of

SCORES = ("BLEU", "chrF2", "chrF2++", "TER", "tokenised BLEU", "NIST BLEU")
LOWER_IS_BETTER = {"TER"}
ORDERS = range(1, 9)


@dataclass(frozen=True)
class Column:
    """Describes a figure of a system: where it comes from, how it is written, and whether more is
    better."""

    title: str
    group: str = ""
    digits: int = 2
    better: int = 1  # 1 if more is better, -1 if less is better, 0 if neither is

    def value(self, system: System) -> float | None:
        """Return the figure of a system, or None."""
        if self.group == "score":
            return system.scores.get(self.title, {}).get("score")
        return {
            "parameters": system.training.get("parameters"),
            "training": system.training.get("words_per_second"),
            "decoding": system.sentences_per_second("translation"),
            "parsing": system.sentences_per_second("with_parsing"),
        }[self.group]

    def spread(self, system: System) -> str:
        """Return the standard deviation over the runs of a system as text, if there are several."""
        deviation = None
        if self.group == "score":
            deviation = system.scores.get(self.title, {}).get("deviation")
        return "" if deviation is None else f"± {deviation:.{self.digits}f}"

    def written(self, value: float | None) -> str:
        """Return a figure as the table shows it."""
        return "" if value is None else f"{value:,.{self.digits}f}"


# U+2060 forbids a line break after the slash. No speed is the best one: the logs do not tell on
# which machine it was measured, and what else worked there.
FIGURES = (
    Column("parameters", "parameters", 0, 0),
    Column("training words/\u2060s", "training", 0, 0),
    Column("sentences/\u2060s", "decoding", 1, 0),
    Column("sentences/\u2060s, with parsing", "parsing", 1, 0),
)


class Cell(NamedTuple):
    """Holds the text of a cell, whether it is the best one, its mark and its deviation."""

    text: str
    best: bool = False
    mark: str = ""
    spread: str = ""


def score_columns(systems: Sequence[System]) -> list[Column]:
    """Return the columns that some system has, first those of usual scores, then others."""
    names = dict.fromkeys([*SCORES, *(name for system in systems for name in system.scores)])
    scores = [
        Column(n, "score", digits(n, systems), -1 if lower_is_better(n, systems) else 1)
        for n in names
    ]
    return [c for c in (*scores, *FIGURES) if any(c.value(s) is not None for s in systems)]


def digits(name: str, systems: Sequence[System]) -> int:
    """Return how many digits a score needs in the tables: those of COMET lie between 0 and 1."""
    found = [system.scores[name] for system in systems if name in system.scores]
    return min((digits_of(one["score"], one["signature"]) for one in found), default=2)


def lower_is_better(name: str, systems: Sequence[System]) -> bool:
    """Return whether a smaller score of this name is a better one."""
    said = any(system.scores.get(name, {}).get("lower_is_better") for system in systems)
    return said or name in LOWER_IS_BETTER


def score_rows(systems: Sequence[System], columns: Sequence[Column]) -> list[list[Cell]]:
    """Return a row of cells for each system of one test set."""
    best = [best_text(column, systems) for column in columns]
    return [
        [
            Cell(
                text := column.written(column.value(system)),
                text == winner,
                mark(system, column),
                column.spread(system),
            )
            for column, winner in zip(columns, best, strict=True)
        ]
        for system in systems
    ]


def best_text(column: Column, systems: Sequence[System]) -> str | None:
    """Return the text of the best figure, or None where all are equal.

    Figures that look equal are equally good.
    """
    values = [v for system in systems if (v := column.value(system)) is not None]
    if not column.better or len({column.written(v) for v in values}) < 2:
        return None
    return column.written(max(values, key=lambda value: column.better * value))


def mark(system: System, column: Column) -> str:
    """Return the mark of significance of a score, which may be empty."""
    if column.group != "score" or not system.baseline:
        return ""
    return system.baseline.get("scores", {}).get(column.title, {}).get("mark", "")


def correct_marks(systems: Sequence[System]) -> None:
    """Give marks to the differences that are significant after Holm over all tests of a page."""
    tests = [
        (system, name, found)
        for system in systems
        for name, found in (system.baseline or {}).get("scores", {}).items()
        if found.get("welch_p") is not None
    ]
    corrected = holm([found["welch_p"] for _, _, found in tests])
    for (system, name, found), p in zip(tests, corrected, strict=True):
        found["mark"] = arrow(found["difference"], p, lower_is_better(name, [system]))


def signatures(systems: Sequence[System]) -> list[tuple[str, str, str]]:
    """Return scores and signatures, with the systems that have them where they differ."""
    found: dict[tuple[str, str], list[System]] = {}
    for system in systems:
        for name, score in system.scores.items():
            found.setdefault((name, score["signature"]), []).append(system)
    several = [name for name, _ in found]
    order = list(dict.fromkeys([*SCORES, *several]))
    return [
        (name, signature, named(users) if several.count(name) > 1 else "")
        for (name, signature), users in sorted(found.items(), key=lambda i: order.index(i[0][0]))
    ]


def named(systems: Sequence[System]) -> str:
    """Return the names of systems, with their test sets, in one text."""
    parts = []
    for test, group in by_test(systems).items():
        names = ", ".join(system.name for system in group)
        parts.append(f"{names} ({test})" if test else names)
    return "; ".join(parts)


class Difference(NamedTuple):
    """Holds how a score differs from that of the baseline, as text."""

    system: System
    score: str
    difference: str
    interval: str
    welch_p: str
    bootstrap_p: str
    randomisation_p: str
    mark: str


def differences(systems: Sequence[System]) -> list[Difference]:
    """Return a row for each score of each system with a baseline."""
    return [
        Difference(
            system,
            name,
            signed(found["difference"], digits=digits(name, [system])),
            " to ".join(
                signed(end, digits=digits(name, [system])) for end in found.get("interval", [])
            ),
            probability(found.get("welch_p")),
            probability(found.get("bootstrap_p")),
            probability(found.get("randomisation_p")),
            found["mark"],
        )
        for system in systems
        for name, found in (system.baseline or {}).get("scores", {}).items()
    ]


def probability(p: float | None) -> str:
    """Return a p value as text."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def gap_rows(systems: Sequence[System], measure: str) -> list[tuple[System, list[str]]]:
    """Return a row for each system with a cell for each n, which is empty where there is no gap."""
    rows = []
    for system in systems:
        found = (system.baseline or {}).get("ngrams", [])
        gaps = {gap["n"]: gap[measure] for gap in found}
        rows.append((system, [signed(gaps[n], digits=2) if n in gaps else "" for n in ORDERS]))
    return rows
