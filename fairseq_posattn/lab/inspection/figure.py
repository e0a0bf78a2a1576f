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

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.lab.inspection.figure_rows import Grid
from fairseq_posattn.lab.inspection.page import page
from fairseq_posattn.lab.inspection.picture import Picture
from fairseq_posattn.lab.inspection.plotting import (
    SOFT,
    STYLE,
    Canvas,
    import_matplotlib,
    matplotlib_with,
    printable,
)
from fairseq_posattn.lab.inspection.rows import limits
from fairseq_posattn.lab.inspection.tree import GAP, TreeOfFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, COLOURS = 100, 160
SIDE = 0.12  # margin of the figure
EAST_ASIAN = (
    *(f"Noto Sans CJK {region}" for region in ("JP", "SC", "KR", "TC", "HK")),
    *("Source Han Sans", "IPAGothic", "IPAPGothic", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei"),
    *("Malgun Gothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS"),
)
LINE = 0.175  # height of a line of text
SPACE = 0.1  # space below the lines of text
LETTERS = 15.5  # characters per inch at size 8; slightly fewer than fit
Line = tuple[str, float, dict[str, Any]]  # a line of text, its height and style


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
    grid = Grid(words, columns, SIDE)
    lines = list(header(picture, grid.width))
    tree = picture.tree and TreeOfFigure(picture.tree, grid.width - 2 * SIDE)
    heights = [height for _, height, _ in lines] + [SPACE]
    heights += [tree.height + GAP] if tree else []
    canvas = Canvas(grid.width, sum(heights + [grid.row_height] * len(picture.rows)))
    y = 0.0
    for text, height, style in lines:
        canvas.text(SIDE, y + 0.06, text, **style)
        y += height
    if tree:
        tree.draw(canvas, y + SPACE, SIDE)
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


KINDS = ("png", "svg", "html")


def checked_kind(path: Path) -> str:
    """Return the file format that a suffix specifies.

    Raises InputError if the format is unknown or the file cannot be written.
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
