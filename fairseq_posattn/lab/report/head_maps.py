"""Show what the attention heads of the systems do, and what their mechanisms have learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fairseq_posattn.io.records import known
from fairseq_posattn.lab.scoring.cells import NONE
from fairseq_posattn.lab.scoring.head_record import Head, Heads
from fairseq_posattn.lab.scoring.score_record import ScoredSystem

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
class Shade:
    """This is a figure, and how dark it is: from 0 for the smallest to 1 for the largest."""

    text: str
    share: float


@dataclass(frozen=True)
class HeadMap:
    """A map has a row for each layer and a column for each head."""

    title: str
    rows: list[list[Shade]]


@dataclass(frozen=True)
class MapGroup:
    """These are maps of layers and heads that belong together, such as those of one model."""

    title: str
    maps: Sequence[HeadMap]

    @property
    def columns(self) -> int:
        """Return the number of heads."""
        return max((len(row) for one in self.maps for row in one.rows), default=0)


@dataclass(frozen=True)
class LearntRow:
    """This is a row of what mechanisms have learnt."""

    place: str
    name: str
    cells: list[str]


@dataclass(frozen=True)
class ShownHeads:
    """This is what the report shows of the heads of one system."""

    system: ScoredSystem
    about: str
    maps: list[HeadMap]
    learnt: list[LearntRow]
    columns: int


def all_heads(systems: Sequence[ScoredSystem]) -> list[ShownHeads]:
    """Return what is shown of each system whose heads were described."""
    return [shown(system, system.heads) for system in systems if system.heads]


def shown(system: ScoredSystem, found: Heads) -> ShownHeads:
    """Return what is shown of one system."""
    maps = [map_of(found.heads, n) for n in MEASURES if known_of(found.heads, n)]
    columns = max((head.head + 1 for head in found.heads), default=0)
    return ShownHeads(system, about(found), maps, list(learnt_rows(found, columns)), columns)


def about(found: Heads) -> str:
    """Return what the maps were computed from, and what a head reaches that knows no tree."""
    text = f"the mean over {found.sentences:,} sentences"
    if (share := known(found.neighbours)) is not None:
        text += "; a head that always looks at the word before would have "
        text += f"{100 * share:.0f} % along an edge"
    return text


def known_of(heads: Sequence[Head], name: str) -> list[float]:
    """Return a figure of all heads that have it."""
    return [found for head in heads if (found := known(getattr(head, name))) is not None]


def map_of(heads: Sequence[Head], name: str) -> HeadMap:
    """Return the map of one measure."""
    values = {(head.layer, head.head): known(getattr(head, name)) for head in heads}
    there = known_of(heads, name)
    low, high = min(there), max(there)
    rows: list[list[Shade]] = []
    for layer in sorted({layer for layer, _ in values}):
        of_layer = [values[key] for key in sorted(values) if key[0] == layer]
        rows.append([shade(found, low, high, MEASURES[name]) for found in of_layer])
    return HeadMap(TITLES[name], rows)


def shade(number: float | None, low: float, high: float, shown: Callable[[float], str]) -> Shade:
    """Return the shade of a number."""
    if number is None:
        return Shade(NONE, 0.0)
    return Shade(shown(number), round((number - low) / (high - low), 3) if high > low else 0.0)


def learnt_rows(found: Heads, columns: int) -> Iterator[LearntRow]:
    """Yield a row for each number that a mechanism has in a layer; a single one stands first."""
    for number in found.numbers or ():
        by_head = dict(zip(number.heads or [0], number.values, strict=True))
        cells = [f"{by_head[k]:.3g}" if k in by_head else "" for k in range(columns)]
        name = f"{number.mechanism}: {number.name}"
        yield LearntRow(number.place, name if number.heads else f"{name} (layer)", cells)
