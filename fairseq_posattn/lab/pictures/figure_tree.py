"""Draw the dependency tree above the matrices: arcs, words and depths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq_posattn.lab.pictures.canvas import PALE, SOFT, Canvas, Strip
from fairseq_posattn.trees.drawing import Arc, TreeLayout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Heights: a level of arcs, the root's arrow above them, words with depths, space below.
LEVEL, ROOT, BELOW, GAP = 0.21, 0.34, 0.36, 0.16
DEPTH = 0.4  # width of the label "depth"
UNIT = 105  # units of TreeLayout per inch
BEND, HEAD = 0.09, 0.06  # inches: corner radius of an arc, length of its arrow head


def tree_strip(layout: TreeLayout, width: float, side: float) -> Strip:
    """Return the tree as a strip of the figure; long sentences are scaled down to fit."""
    tree = Tree(layout, width - 2 * side)
    return Strip(tree.height + GAP, partial(tree.draw, x=side))


class Tree:
    """A tree with its words in a row, arcs from parents to children above, and depths below."""

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
