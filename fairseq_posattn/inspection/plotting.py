"""Draw figures and dependency trees with matplotlib, independent of the user's settings."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from fairseq_posattn.errors import lab_extra
from fairseq_posattn.trees.drawing import DEPTHS, Shape, TreeLayout

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


UNIT = 105  # units of TreeLayout per inch
MARGIN = 42  # units to the left of a tree, for the label "depth"
FONTS = {"word": (8.5, INK), "depth": (7, SOFT), "relation": (6.5, SOFT)}


def draw_tree(canvas: Canvas, x: float, y: float, layout: TreeLayout, scale: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    axes = canvas.axes(x, y, scale * (MARGIN + layout.width), scale * layout.height)
    axes.axis("off")
    axes.set(xlim=(-MARGIN, layout.width), ylim=(layout.height, 0))
    zoom = scale * UNIT
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8 * zoom}
    codes = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, " ": Path.CURVE3}
    title = Shape("depth", [("M", 15 - MARGIN, layout.feet + DEPTHS)], "depth")
    for kind, points, text in [*chain.from_iterable(group for _, group in layout.groups()), title]:
        places = [(x, y) for _, x, y in points]
        if text is None:
            path = Path(places, [codes[letter] for letter, *_ in points])
            wide = 0 if kind == "head" else zoom
            axes.add_patch(PathPatch(path, color=PALE, fill=kind == "head", linewidth=wide))
        else:
            size, colour = FONTS[kind]
            axes.text(*places[0], text, ha="center", size=zoom * size, color=colour, bbox=box)
