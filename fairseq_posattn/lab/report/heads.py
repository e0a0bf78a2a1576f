"""Show what the attention heads of the systems do, and what their mechanisms have learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fairseq_posattn.lab.report.systems import System

NONE = "–"
MEASURES: dict[str, Callable[[float], str]] = {
    "entropy": "{:.2f}".format,
    "distance": "{:.1f}".format,
    "tree_edges": lambda share: f"{100 * share:.0f}",
}
TITLES = {
    "entropy": "Entropy, in nats",
    "distance": "Mean distance, in pieces",
    "tree_edges": "Along an edge of the tree, % of the words",
}


@dataclass(frozen=True)
class Cell:
    """This is a figure, and how dark it is: from 0 for the smallest to 1 for the largest."""

    text: str
    share: float


@dataclass(frozen=True)
class Map:
    """A map has a row for each layer and a column for each head."""

    title: str
    rows: list[list[Cell]]


@dataclass(frozen=True)
class LearntRow:
    """This is a row of what mechanisms have learnt."""

    place: str
    name: str
    cells: list[str]


@dataclass(frozen=True)
class HeadPart:
    """This is what the report shows of the heads of one system."""

    system: System
    about: str
    maps: list[Map]
    learnt: list[LearntRow]
    columns: int


def all_parts(systems: Sequence[System]) -> list[HeadPart]:
    """Return what is shown of each system whose heads were described."""
    return [part(system) for system in systems if system.about.get("heads")]


def part(system: System) -> HeadPart:
    """Return what is shown of one system."""
    found = system.about["heads"]
    heads = found["heads"]
    maps = [map_of(heads, name) for name in MEASURES if any(h.get(name) is not None for h in heads)]
    columns = max((head["head"] + 1 for head in heads), default=0)
    return HeadPart(system, about(found), maps, list(learnt_rows(found, columns)), columns)


def about(found: dict) -> str:
    """Return what the maps were computed from, and what a head reaches that knows no tree."""
    text = f"the mean over {found['sentences']:,} sentences"
    if found.get("neighbours") is not None:
        share = 100 * found["neighbours"]
        text += (
            f"; a head that always looks at the word before would have {share:.0f} % along an edge"
        )
    return text


def map_of(heads: Sequence[dict], name: str) -> Map:
    """Return the map of one measure."""
    values = {(head["layer"], head["head"]): head.get(name) for head in heads}
    there = [value for value in values.values() if value is not None]
    low, high = min(there), max(there)
    rows: list[list[Cell]] = []
    for layer in sorted({layer for layer, _ in values}):
        of_layer = [values[key] for key in sorted(values) if key[0] == layer]
        rows.append([cell(value, low, high, MEASURES[name]) for value in of_layer])
    return Map(TITLES[name], rows)


def cell(value: float | None, low: float, high: float, shown: Callable[[float], str]) -> Cell:
    """Return the cell of a value."""
    if value is None:
        return Cell(NONE, 0.0)
    return Cell(shown(value), round((value - low) / (high - low), 3) if high > low else 0.0)


def learnt_rows(found: dict, columns: int) -> Iterator[LearntRow]:
    """Yield a row for each number that a mechanism has in a layer; a single one stands first."""
    for number in found.get("numbers") or ():
        by_head = dict(zip(number["heads"] or [0], number["values"], strict=True))
        cells = [f"{by_head[k]:.3g}" if k in by_head else "" for k in range(columns)]
        name = f"{number['mechanism']}: {number['name']}"
        yield LearntRow(number["place"], name if number["heads"] else f"{name} (layer)", cells)
