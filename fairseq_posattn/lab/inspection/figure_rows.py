"""Draw the rows of a figure: matrices side by side, followed by a colour scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_posattn.lab.inspection.plotting import INK, SOFT, Canvas
from fairseq_posattn.lab.inspection.rows import SIGNED, Kind, Panel, Row, scale_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 8.0  # 800 pixels, unless the words need more space
LETTER, LONGEST = 0.063, 14  # width of a character in labels; maximum length of a label
TITLE, HEAD, BELOW = 0.25, 0.13, 0.13  # heights: title of a row, label of a panel, space below
GAP, SCALE = 0.12, 0.62  # widths: between panels, and of the scale after the last one
SMALLEST, LARGEST = 0.13, 0.25  # side length of a cell
WIDE = 0.42  # blocks of columns up to this width have vertical names
WITH_LINES = 40  # lines between the cells are drawn up to this number of words
ALLOWED, FORBIDDEN = "#3a4250", "#e9ecf0"
FADED = 2.2  # cells with numbers use only the pale part of the colour map


class Grid:
    """The layout of all rows, in inches; matrices in the same column are aligned.

    label: the space for word labels, to the left of each matrix and above it.
    """

    def __init__(self, words: Sequence[str], columns: int, side: float):
        """Compute the layout for a number of columns; `side` is the margin of the figure."""
        self.words, self.side = words, side
        self.label = 0.08 + LETTER * max(len(shortened(word)) for word in words)
        self.left = side + self.label
        room = WIDTH - self.left - columns * GAP - SCALE
        self.cell = min(max(room / columns / len(words), SMALLEST), LARGEST)
        self.panel = self.cell * len(words)
        self.width = max(WIDTH, self.left + columns * (self.panel + GAP) + SCALE)
        self.row_height = TITLE + HEAD + self.label + self.panel + BELOW

    def draw(self, canvas: Canvas, y: float, row: Row, limit: float) -> None:
        canvas.text(self.side, y + 0.04, row.heading, weight="bold", size=8.5)
        top = y + TITLE + HEAD + self.label
        for panel in row.panels:
            x = self.left + panel.column * (self.panel + GAP)
            canvas.text(x, y + TITLE, panel.label, color=SOFT)
            axes = canvas.axes(x, top, self.panel, self.panel)
            draw_matrix(axes, panel, row.kind, limit)
            self.label_axes(axes, panel, first=panel is row.panels[0])
        end = self.left + (row.panels[-1].column + 1) * (self.panel + GAP)
        if row.has_scale:
            draw_scale(canvas.axes(end, top, 0.1, self.panel), row, limit)

    def label_axes(self, axes: Axes, panel: Panel, first: bool) -> None:
        """Label the columns of a matrix; for the first matrix of a row, also label its rows."""
        middles = np.arange(len(self.words)) + 0.5
        names = [shortened(word) for word in self.words]
        axes.tick_params(length=0, pad=2, labelsize=min(8, 72 * self.cell * 0.72))
        axes.xaxis.tick_top()
        if panel.blocks:
            ends = np.arange(len(panel.blocks)) * len(self.words)
            turned = 0 if self.panel / len(panel.blocks) > WIDE else 90
            axes.set_xticks(ends + len(self.words) / 2, panel.blocks, size=7, rotation=turned)
            axes.vlines(ends[1:], 0, len(self.words), color="white", linewidth=2)
        else:
            axes.set_xticks(middles, names, rotation=90)
        axes.set_yticks(middles if first else [], names if first else [])


def draw_matrix(axes: Axes, panel: Panel, kind: Kind, limit: float) -> None:
    rows, columns = panel.values.shape
    values = panel.values.astype(float)
    style: dict[str, Any] = {}
    if max(rows, columns) <= WITH_LINES:
        style = {"edgecolor": "white", "linewidth": 0.5}
    axes.pcolormesh(np.clip(values, -1e30, 1e30), **colours(kind, limit), **style)
    axes.invert_yaxis()
    if kind == Kind.RELATION and rows <= WITH_LINES:
        for (i, j), value in np.ndenumerate(panel.values):
            text = f"{value}".replace("-", "−")
            axes.text(j + 0.5, i + 0.52, text, ha="center", va="center", size=6.5, color=INK)


def draw_scale(axes: Axes, row: Row, limit: float) -> None:
    labels = scale_labels(row, limit)
    numbers = np.linspace(-limit if row.is_signed else 0.0, limit, 101)
    middles = (numbers[1:] + numbers[:-1])[:, None] / 2
    axes.pcolormesh([0, 1], numbers, middles, **colours(row.kind, limit))
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.set_yticks(np.linspace(numbers[0], limit, len(labels)), labels)
    axes.tick_params(length=0, pad=2, labelsize=7)


def colours(kind: Kind, limit: float) -> dict[str, Any]:
    """Return matplotlib's options for the colours of a row.

    Masks are drawn in two colours, signed values with a diverging colour map, and other values in
    shades of blue.
    """
    from matplotlib.colors import ListedColormap, PowerNorm

    if kind == Kind.MASK:
        return {"cmap": ListedColormap([FORBIDDEN, ALLOWED]), "vmin": 0, "vmax": 1}
    if kind in SIGNED:
        end = limit * FADED if kind == Kind.RELATION else limit
        return {"cmap": "PuOr_r", "vmin": -end, "vmax": end}
    if kind == Kind.FIELD:
        return {"cmap": "Blues", "norm": PowerNorm(0.5, 0, limit)}
    return {"cmap": "Blues", "vmin": 0, "vmax": limit}


def shortened(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"
