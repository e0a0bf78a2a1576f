"""Draw on a matplotlib figure, with coordinates in inches from the upper left corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairseq_posattn.lab.report.drawing import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SOFT, PALE = "#5c6675", "#9aa3af"
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


@dataclass(frozen=True)
class Canvas:
    """A matplotlib figure; the methods take coordinates in inches from the upper left corner."""

    figure: Figure
    width: float
    height: float

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Draw text whose upper left corner is at (x, y), unless `style` changes the alignment."""
        place = x / self.width, 1 - y / self.height
        self.figure.text(*place, text, **{"va": "top", **style})

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Add axes without ticks, with their upper left corner at (x, y)."""
        bottom = 1 - (y + height) / self.height
        size = x / self.width, bottom, width / self.width, height / self.height
        return self.figure.add_axes(size, xticks=[], yticks=[])


@dataclass(frozen=True)
class Strip:
    """A horizontal part of a figure that spans its full width.

    draw: function that draws the part on a canvas, given the y coordinate of its upper edge.
    """

    height: float
    draw: Callable[[Canvas, float], None]


def drawn(strips: Sequence[Strip], width: float) -> Figure:
    """Stack the strips vertically, and return the figure."""
    from matplotlib.figure import Figure

    height = sum(strip.height for strip in strips)
    canvas, y = Canvas(Figure((width, height)), width, height), 0.0
    for strip in strips:
        strip.draw(canvas, y)
        y += strip.height
    return canvas.figure
