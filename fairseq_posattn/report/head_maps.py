"""Prepare the heat maps of attention heads and the learnt values of mechanisms for the report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairseq_posattn.files.records import known
from fairseq_posattn.scoring.inspection_record import Head, Heads
from fairseq_posattn.scoring.score_record import ScoredSystem
from fairseq_posattn.scoring.tables import NONE

MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "entropy": ("Entropy, in nats", "{:.2f}".format),
    "distance": ("Mean distance, in pieces", "{:.1f}".format),
    "tree_edges": ("Along an edge of the tree, % of words", lambda x: f"{100 * x:.0f}"),
}


class Shade(NamedTuple):
    """A cell of a heat map.

    share: shade of the cell, from 0 (smallest value) to 1 (largest value).
    """

    text: str
    share: float


class HeadMap(NamedTuple):
    """A heat map with one row per layer and one column per head."""

    title: str
    rows: list[list[Shade]]


@dataclass(frozen=True)
class MapGroup:
    """Heat maps of the heads of one model, under a common heading.

    system: the scored system, whose symbol is shown in the heading.
    learnt: one row per learnt value and layer, with the location in the model, the name of the
        value, and one cell per head.
    """

    title: str
    maps: Sequence[HeadMap]
    system: ScoredSystem | None = None
    note: str = ""
    learnt: Sequence[tuple[str, str, list[str]]] = ()

    @property
    def columns(self) -> int:
        return max((len(row) for one in self.maps for row in one.rows), default=0)


def map_group(system: ScoredSystem) -> MapGroup:
    """Return the heat maps and learnt values of a scored system."""
    found = system.heads
    maps = [one for name in MEASURES if (one := map_of(found.heads, name))]
    group = MapGroup(system.system, maps, system, f"Encoder, {about(found)}.")
    return replace(group, learnt=list(learnt_rows(found, group.columns)))


def about(found: Heads) -> str:
    """Describe the sample size and, if known, how often the previous word is a tree neighbour.

    The latter is the share that a head would reach by always attending to the previous word.
    """
    text = f"the mean over {found.sentences:,} sentences"
    if (share := known(found.neighbours)) is not None:
        text += "; a head that always attends to the previous word would have "
        text += f"{100 * share:.0f} % along an edge"
    return text


def map_of(heads: Sequence[Head], name: str) -> HeadMap | None:
    """Return the heat map of one measure, or None if its value is unknown for all heads."""
    title, written = MEASURES[name]
    values = {(head.layer, head.head): known(getattr(head, name)) for head in heads}
    there = [value for value in values.values() if value is not None]
    if not there:
        return None
    rows: list[list[Shade]] = []
    for layer in sorted({layer for layer, _ in values}):
        of_layer = [values[key] for key in sorted(values) if key[0] == layer]
        rows.append([shade(found, min(there), max(there), written) for found in of_layer])
    return HeadMap(title, rows)


def shade(number: float | None, low: float, high: float, shown: Callable[[float], str]) -> Shade:
    if number is None:
        return Shade(NONE, 0.0)
    return Shade(shown(number), round((number - low) / (high - low), 3) if high > low else 0.0)


def learnt_rows(found: Heads, columns: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield one row for each learnt quantity in each layer, with one column per head.

    A value that applies to the whole layer is in column 0.
    """
    for number in found.numbers or ():
        by_head = dict(zip(number.heads or [0], number.values, strict=True))
        cells = [f"{by_head[k]:.3g}" if k in by_head else "" for k in range(columns)]
        name = f"{number.mechanism}: {number.name}"
        yield number.place, name if number.heads else f"{name} (layer)", cells
