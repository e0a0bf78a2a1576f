"""Write a picture to a PNG, SVG or HTML file.

PNG and SVG files are drawn with matplotlib. The output is deterministic.
"""

from __future__ import annotations

import contextlib
import io
import logging
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.paths import refuse_unwritable
from fairseq_posattn.inspection.page import page
from fairseq_posattn.inspection.picture import Picture
from fairseq_posattn.inspection.plotting import (
    INK,
    MARGIN,
    SOFT,
    STYLE,
    UNIT,
    Canvas,
    draw_tree,
    import_matplotlib,
    matplotlib_with,
    printable,
)
from fairseq_posattn.inspection.rows import SIGNED, Kind, Panel, Row, limits, scale_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("png", "svg", "html")
DPI, COLOURS = 100, 160
SIDE = 0.12  # margin of the figure
EAST_ASIAN = (
    *(f"Noto Sans CJK {region}" for region in ("JP", "SC", "KR", "TC", "HK")),
    *("Source Han Sans", "IPAGothic", "IPAPGothic", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei"),
    *("Malgun Gothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS"),
)
LINE = 0.175  # height of a line of text
SPACE = 0.1  # space below the lines of text and the tree
LETTERS = 15.5  # characters per inch at size 8; slightly fewer than fit
WIDTH = 8.0  # 800 pixels, unless the words need more space
LABEL_LETTER, LONGEST = 0.063, 14  # width of a character in labels; maximum length of a label
TITLE, HEAD, BELOW = 0.25, 0.13, 0.13  # heights of row titles, panel labels, and margins
GAP, SCALE = 0.12, 0.62  # widths: between panels, and of the scale after the last one
SMALLEST, LARGEST = 0.13, 0.25  # side length of a cell
WIDE = 0.42  # blocks of columns up to this width have vertical names
WITH_LINES = 40  # lines between the cells are drawn up to this number of words
ALLOWED, FORBIDDEN = "#3a4250", "#e9ecf0"
FADED = 2.2  # cells with numbers use only the pale part of the colour map
Line = tuple[str, float, dict[str, Any]]  # a line of text, its height and style


def checked_kind(path: Path) -> str:
    """Return the file format that a suffix specifies.

    Raises InputError for an unknown format, a folder, or missing matplotlib.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"--out {path} has no known suffix; use .png, .svg or .html")
    refuse_unwritable(path)
    if kind != "html":
        import_matplotlib()
    return kind


def write(picture: Picture, path: Path, kind: str) -> bool:
    """Write the picture to a file of this format; return whether all characters were drawn."""
    if kind == "html":
        text = page(picture)
        with written_whole(path) as file:
            file.write(text)
        return True
    with replaced_whole(path) as partial:
        if drawn_with([], picture, partial, kind):
            return True
        fonts = [] if kind == "svg" else east_asian_fonts()
        return bool(fonts) and drawn_with(fonts, picture, partial, kind)


def east_asian_fonts() -> list[str]:
    from matplotlib import font_manager

    # suppress warnings that these fonts have no bold weight
    logging.getLogger(font_manager.__name__).setLevel(logging.ERROR)
    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:  # installed after matplotlib cached its list of fonts
            with contextlib.suppress(Exception):  # matplotlib cannot read every font
                manager.addfont(path)
    there = {font.name for font in manager.ttflist}
    return [name for name in EAST_ASIAN if name in there]


def drawn_with(fonts: Sequence[str], picture: Picture, path: Path, kind: str) -> bool:
    """Write the picture with these fallback fonts; return whether all characters were drawn."""
    style = STYLE | {"font.family": ["DejaVu Sans", *fonts]} if fonts else STYLE
    with matplotlib_with(style), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        about = {"Title": picture.title, "Description": " ".join(picture.notes)}
        unstable = {"Date": None} if kind == "svg" else {"Software": None}
        file = io.BytesIO()
        sheet(picture).savefig(file, format=kind, dpi=DPI, metadata={**about, **unstable})
        path.write_bytes(with_palette(file, about) if kind == "png" else file.getvalue())
    return not any("missing from" in str(warning.message) for warning in warned)


def with_palette(file: io.BytesIO, about: dict[str, str]) -> bytes:
    """Reduce the colours of a PNG to a palette, which shrinks the file to about a third.

    about: text metadata of the file.
    """
    from PIL import Image, PngImagePlugin  # a dependency of matplotlib

    texts, smaller = PngImagePlugin.PngInfo(), io.BytesIO()
    for key, value in about.items():
        texts.add_itxt(key, value)
    method, dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    with Image.open(file) as image:
        few = image.convert("RGB").quantize(COLOURS, method, dither=dither)
        few.save(smaller, "png", optimize=True, pnginfo=texts)
    return smaller.getvalue()


def sheet(picture: Picture) -> Figure:
    words = [printable(word) for word in picture.pieces]
    columns = 1 + max(panel.column for row in picture.rows for panel in row.panels)
    grid = Grid(words, columns)
    lines = list(header(picture, grid.width))
    tree = picture.tree
    scale = min(1 / UNIT, (grid.width - 2 * SIDE) / (MARGIN + tree.width)) if tree else 0
    heights = [height for _, height, _ in lines] + [SPACE]
    heights += [scale * tree.height + SPACE] if tree else []
    canvas = Canvas(grid.width, sum(heights + [grid.row_height] * len(picture.rows)))
    y = 0.0
    for text, height, style in lines:
        canvas.text(SIDE, y + 0.06, text, **style)
        y += height
    if tree:
        draw_tree(canvas, SIDE, y + SPACE, tree, scale)
    y = sum(heights)
    for row, limit in zip(picture.rows, limits(picture.rows), strict=True):
        grid.draw(canvas, y, row, limit)
        y += grid.row_height
    return canvas.figure


def header(picture: Picture, width: float) -> Iterator[Line]:
    """Yield the lines above the matrices: specification, summaries, equations and notes."""
    yield from lines_of(picture.title, width, weight="bold", size=10.5)
    for name, summary, equation in picture.mechanisms:
        several = len(picture.mechanisms) > 1
        yield from lines_of(f"{name}: {summary}" if several else summary, width)
        yield from lines_of(equation, width)
    yield from lines_of(" ".join(picture.notes), width, color=SOFT)


def lines_of(text: str, width: float, **style: Any) -> Iterator[Line]:
    size = style.setdefault("size", 8)
    wide = 1.12 if "weight" in style else 1.0  # bold letters are wider
    letters = int((width - 2 * SIDE) * LETTERS * 8 / size / wide)
    for part in textwrap.wrap(printable(text), letters):
        yield part, LINE * size / 8, style


class Grid:
    """The layout of all rows, in inches; matrices in the same column are aligned.

    label: the space for word labels, left of the first matrix and above each one.
    """

    def __init__(self, words: Sequence[str], columns: int):
        self.words = words
        self.label = 0.08 + LABEL_LETTER * max(len(shortened(word)) for word in words)
        self.left = SIDE + self.label
        room = WIDTH - self.left - columns * GAP - SCALE
        self.cell = min(max(room / columns / len(words), SMALLEST), LARGEST)
        self.panel = self.cell * len(words)
        self.width = max(WIDTH, self.left + columns * (self.panel + GAP) + SCALE)
        self.row_height = TITLE + HEAD + self.label + self.panel + BELOW

    def draw(self, canvas: Canvas, y: float, row: Row, limit: float) -> None:
        canvas.text(SIDE, y + 0.04, row.heading, weight="bold", size=8.5)
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
