"""Draw with matplotlib, independent of the user's settings; draw dependency trees.

Trees have arcs above the words and depths below them. `tree_svg` draws a tree for HTML pages, and
`TreeOfFigure` draws it with matplotlib.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from fairseq_posattn.errors import lab_extra
from fairseq_posattn.trees.drawing import LETTER, RADIUS, SIDE, Arc, TreeLayout, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK, SOFT, PALE = "#3a4250", "#5c6675", "#9aa3af"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posattn-show",
    "text.parse_math": False,
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": PALE,
    "axes.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def matplotlib_with(style: Mapping[str, Any]) -> Iterator[Any]:
    """Yield matplotlib with its default settings and this style; a user's matplotlibrc is ignored.

    Settings are restored afterwards.
    """
    matplotlib = import_matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        yield matplotlib


def import_matplotlib():
    """Import matplotlib; if it is missing, raise an InputError that explains how to install it."""
    # fairseq enables debug messages of all libraries
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    with lab_extra("the figures need"):
        import matplotlib.figure
    return matplotlib


def printable(name: str) -> str:
    """Replace characters that XML does not allow."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", "\ufffd", name)


@dataclass(frozen=True)
class Canvas:
    """A matplotlib figure; the methods take coordinates in inches from the upper left corner."""

    width: float
    height: float

    @cached_property
    def figure(self) -> Figure:
        return import_matplotlib().figure.Figure((self.width, self.height))

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Draw text whose upper left corner is at (x, y), unless `style` changes the alignment."""
        place = x / self.width, 1 - y / self.height
        self.figure.text(*place, text, **{"va": "top", **style})

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Add axes without ticks, with their upper left corner at (x, y)."""
        bottom = 1 - (y + height) / self.height
        size = x / self.width, bottom, width / self.width, height / self.height
        return self.figure.add_axes(size, xticks=[], yticks=[])


# Pixels in SVG
SVG_LEVEL, SVG_LABELLED_LEVEL = 20, 27
SVG_ROOT = 24  # distance from the highest arc up to the start of the root's arrow
WORDS, DEPTHS, BOTTOM = 19, 40, 48  # below the arcs: baselines of words and depths, lower edge
# Inches in matplotlib: a level of arcs, the root's arrow above them, words with depths, space below
LEVEL, ROOT, BELOW, BELOW_TREE = 0.21, 0.34, 0.36, 0.16
DEPTH = 0.4  # width of the label "depth"
UNIT = 105  # units of TreeLayout per inch
BEND, HEAD = 0.09, 0.06  # corner radius of an arc, length of its arrow head


def tree_svg(layout: TreeLayout) -> str:
    """Return a dependency tree as an SVG element, in which all text is escaped."""
    places, relations = layout.places, layout.relations
    level = SVG_LEVEL if relations is None else SVG_LABELLED_LEVEL
    feet = level * layout.levels + SVG_ROOT + 14
    last = width_of(layout.words[-1], LETTER) / 2 if layout.words else 0
    starts = [layout.ends(arc)[0] for arc in layout.arcs]
    right = max([places[-1] + max(last, 30) if places else 0, *starts]) + SIDE
    width, height = f"{right:.0f}", f"{feet + BOTTOM:.0f}"
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    svg = ElementTree.Element(
        "svg", {"class": "tree", **size, "role": "img", "aria-label": "dependency tree"}
    )
    for root in layout.roots:
        x, group = places[root], ElementTree.SubElement(svg, "g", {"class": "arc root"})
        ElementTree.SubElement(group, "path", {"class": "line", "d": f"M{x:.1f} 14V{feet - 5:.1f}"})
        _draw_head(group, x, feet)
        _text(group, x, 10, (relations[root] if relations else "") or "root", "relation")
    for arc in layout.arcs:
        _draw_arc(svg, layout, arc, feet, feet - level * arc.level)
    for place, word, depth in zip(places, layout.words, layout.depths, strict=True):
        _text(svg, place, feet + WORDS, word, "word")
        _text(svg, place, feet + DEPTHS, str(depth), "depth")
    return ElementTree.tostring(svg, encoding="unicode")


def _draw_arc(
    svg: ElementTree.Element, layout: TreeLayout, arc: Arc, feet: float, top: float
) -> None:
    start, end = layout.ends(arc)
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
    if layout.relations is not None:
        _text(group, (start + end) / 2, top + 3.5, layout.relations[arc.child], "relation")


def _draw_head(group: ElementTree.Element, x: float, feet: float) -> None:
    """Draw an arrow head as a path; an SVG marker would need an id that is unique in the page."""
    shape = f"M{x:.1f} {feet:.1f}l-3.6 -7.5q3.6 1.6 7.2 0z"
    ElementTree.SubElement(group, "path", {"class": "head", "d": shape})


def _text(parent: ElementTree.Element, x: float, y: float, text: str, kind: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "middle"}
    ElementTree.SubElement(parent, "text", {"class": kind, **place}).text = text


class TreeOfFigure:
    """A tree on a matplotlib figure; long sentences are scaled down to fit its width."""

    def __init__(self, layout: TreeLayout, width: float):
        self.layout, self.width = layout, width
        self.scale = min(1 / UNIT, (width - DEPTH) / (layout.places[-1] + 40))
        self.top = ROOT + LEVEL * layout.levels
        self.height = self.top + BELOW

    def inches(self, place: float) -> float:
        return DEPTH + self.scale * place

    def draw(self, canvas: Canvas, y: float, x: float) -> None:
        axes = canvas.axes(x, y, self.width, self.height)
        axes.axis("off")
        axes.set(xlim=(0, self.width), ylim=(BELOW, -self.top))  # 0: lower ends of the arcs
        size = min(8.5, 8.5 * self.scale * UNIT)
        soft: dict[str, Any] = {"size": size - 1.5, "color": SOFT}
        layout = self.layout
        places = map(self.inches, layout.places)
        for place, word, depth in zip(places, layout.words, layout.depths, strict=True):
            axes.text(place, 0.1, word, ha="center", va="center", size=size)
            axes.text(place, 0.27, str(depth), ha="center", va="center", **soft)
        axes.text(0, 0.27, "depth", va="center", **soft)
        for root in layout.roots:
            self.draw_root(axes, self.inches(layout.places[root]), size - 2)
        for arc in layout.offsets:
            self.draw_arc(axes, arc, size - 2)

    def draw_root(self, axes: Axes, x: float, size: float) -> None:
        draw_line(axes, [(x, 0.12 - self.top), (x, 0)])
        axes.text(x + 0.05, 0.15 - self.top, "root", va="center", size=size, color=SOFT)

    def draw_arc(self, axes: Axes, arc: Arc, size: float) -> None:
        start, end = map(self.inches, self.layout.ends(arc))
        top = -LEVEL * arc.level
        bend = min(BEND, abs(end - start) / 2) * (1 if end > start else -1)
        corners = [(start, top), (end, top)]
        points = [(start, 0.0), (start, top + BEND), corners[0], (start + bend, top)]
        points += [(end - bend, top), corners[1], (end, top + BEND), (end, 0)]
        draw_line(axes, points)
        if self.layout.relations:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            style: dict[str, Any] = {"ha": "center", "va": "center", "size": size, "color": SOFT}
            label = self.layout.relations[arc.child]
            axes.text((start + end) / 2, top, label, bbox=box, **style)


def draw_line(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Draw a line that ends with an arrow head pointing down.

    Two points define a straight line. Eight points define an arc with rounded corners at the third
    and sixth point.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    straight = [Path.MOVETO, Path.LINETO]
    arc = [*straight, Path.CURVE3, Path.CURVE3, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    path = Path(points, straight if len(points) == 2 else arc)
    axes.add_patch(PathPatch(path, facecolor="none", edgecolor=PALE, linewidth=1))
    x, y = points[-1]
    axes.fill([x - HEAD / 2, x, x + HEAD / 2], [y - HEAD, y, y - HEAD], color=PALE, linewidth=0)
