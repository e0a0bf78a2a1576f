"""Draw a dependency tree as SVG, with an arc from each word's parent down to the word.

The depths stand below the words. Arcs whose spans overlap lie at different heights, the wider above
the narrower. Arcs that leave a word start beside its middle, wider ones nearer to it, so that no
arcs of a projective tree cross.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

LETTER, LABEL_LETTER = 8.0, 6.2  # widths that are a little more than most fonts need
GAP, STEP, SIDE = 16, 6, 10  # spaces between words, between starts of arcs, at the edges
LEVEL, LABELLED_LEVEL, RADIUS = 20, 27, 13
ROOT = 24  # how far above the highest arc the root's arrow starts
WORDS, DEPTHS, BOTTOM = 19, 40, 48  # base lines below the feet of the arcs


@dataclass(frozen=True)
class Arc:
    """Leads from a parent to its child, with words counted from 0; the narrowest arcs have level
    1."""

    parent: int
    child: int
    level: int

    @property
    def span(self) -> tuple[int, int]:
        """Return the first and the last word of the arc."""
        return min(self.parent, self.child), max(self.parent, self.child)


def arcs_of(parents: Sequence[int]) -> list[Arc]:
    """Return all arcs but the root's, the narrowest first."""
    arcs: list[Arc] = []
    pairs = [(parent - 1, child) for child, parent in enumerate(parents) if parent]
    for parent, child in sorted(pairs, key=lambda pair: (abs(pair[0] - pair[1]), min(pair))):
        first, last = min(parent, child), max(parent, child)
        below = [a.level for a in arcs if a.span[0] < last and first < a.span[1]]
        arcs.append(Arc(parent, child, 1 + max(below, default=0)))
    return arcs


def offsets(arcs: Sequence[Arc]) -> dict[Arc, int]:
    """Return how far from the middle of its parent each arc starts."""
    found: dict[Arc, int] = {}
    for side in (-1, 1):
        count: dict[int, int] = {}
        for arc in sorted(arcs, key=lambda arc: -arc.level):
            if (arc.child > arc.parent) == (side > 0):
                count[arc.parent] = count.get(arc.parent, 0) + 1
                found[arc] = side * STEP * count[arc.parent]
    return found


def width_of(text: str, letter: float) -> float:
    """Return about how wide the text will be drawn; East Asian letters are squares."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return letter * (len(text) + 0.9 * wide)


def middles(
    words: Sequence[str], arcs: Sequence[Arc], relations: Sequence[str] | None
) -> list[float]:
    """Return the x of each word, with room for the word, the starts of its arcs, and the arcs'
    labels."""
    starts = offsets(arcs)
    halves = [max(width_of(word, LETTER), LETTER) / 2 for word in words]
    for arc, offset in starts.items():
        halves[arc.parent] = max(halves[arc.parent], abs(offset) + 2)
    places = [SIDE + halves[0]] if words else []
    for left, right in pairwise(range(len(words))):
        place = places[left] + halves[left] + GAP + halves[right]
        for arc in arcs:
            if arc.span[1] == right:
                label = width_of(relations[arc.child], LABEL_LETTER) if relations else 0
                place = max(place, places[arc.span[0]] + abs(starts[arc]) + label + 2 * RADIUS)
        places.append(place)
    return places


def tree_svg(
    words: Sequence[str],
    parents: Sequence[int],
    depths: Sequence[int],
    relations: Sequence[str] | None = None,
) -> str:
    """Return the picture of a tree; its text is escaped."""
    arcs = arcs_of(parents)
    places, starts = middles(words, arcs, relations), offsets(arcs)
    level = LEVEL if relations is None else LABELLED_LEVEL
    feet = level * max((arc.level for arc in arcs), default=0) + ROOT + 14
    last = width_of(words[-1], LETTER) / 2 if words else 0
    width = max([places[-1] + max(last, 30) if places else 0, *_ends(arcs, places, starts)]) + SIDE
    svg = _svg(width, feet + BOTTOM)
    for child, parent in enumerate(parents):
        if not parent:
            _draw_root(svg, places[child], feet, relations[child] if relations else None)
    for arc in arcs:
        ends = places[arc.parent] + starts[arc], places[arc.child]
        _draw_arc(svg, arc, ends, feet, feet - level * arc.level, relations)
    for place, word, depth in zip(places, words, depths, strict=True):
        _text(svg, place, feet + WORDS, word, "word")
        _text(svg, place, feet + DEPTHS, str(depth), "depth")
    return ElementTree.tostring(svg, encoding="unicode")


def _ends(arcs: Sequence[Arc], places: Sequence[float], starts: dict[Arc, int]) -> list[float]:
    return [places[arc.parent] + starts[arc] for arc in arcs]


def _svg(width: float, height: float) -> ElementTree.Element:
    return ElementTree.Element(
        "svg",
        {
            "class": "tree",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "role": "img",
            "aria-label": "dependency tree",
        },
    )


def _draw_root(svg: ElementTree.Element, x: float, feet: float, label: str | None) -> None:
    group = ElementTree.SubElement(svg, "g", {"class": "arc root"})
    ElementTree.SubElement(group, "path", {"class": "line", "d": f"M{x:.1f} 14V{feet - 5:.1f}"})
    _draw_head(group, x, feet)
    _text(group, x, 10, label or "root", "relation")


def _draw_arc(
    svg: ElementTree.Element,
    arc: Arc,
    ends: tuple[float, float],
    feet: float,
    top: float,
    relations: Sequence[str] | None,
) -> None:
    start, end = ends
    turn = RADIUS if end > start else -RADIUS
    pairs = {"data-parent": str(arc.parent + 1), "data-child": str(arc.child + 1)}
    group = ElementTree.SubElement(svg, "g", {"class": "arc", **pairs})
    side = top + RADIUS
    path = (
        f"M{start:.1f} {feet:.1f}V{side:.1f}Q{start:.1f} {top:.1f} {start + turn:.1f} {top:.1f}"
        f"H{end - turn:.1f}Q{end:.1f} {top:.1f} {end:.1f} {side:.1f}V{feet - 5:.1f}"
    )
    ElementTree.SubElement(group, "path", {"class": "line", "d": path})
    _draw_head(group, end, feet)
    if relations is not None:
        _text(group, (start + end) / 2, top + 3.5, relations[arc.child], "relation")


def _draw_head(group: ElementTree.Element, x: float, feet: float) -> None:
    """Draw the arrow head as a path, as a marker would need an id that is unique in the page."""
    shape = f"M{x:.1f} {feet:.1f}l-3.6 -7.5q3.6 1.6 7.2 0z"
    ElementTree.SubElement(group, "path", {"class": "head", "d": shape})


def _text(parent: ElementTree.Element, x: float, y: float, text: str, kind: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "middle"}
    ElementTree.SubElement(parent, "text", {"class": kind, **place}).text = text
