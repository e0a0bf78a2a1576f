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
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.lab.pictures.canvas import SOFT, STYLE, Canvas, Strip, drawn
from fairseq_posattn.lab.pictures.figure_rows import Grid
from fairseq_posattn.lab.pictures.figure_tree import tree_strip
from fairseq_posattn.lab.pictures.page import page
from fairseq_posattn.lab.pictures.picture import Picture
from fairseq_posattn.lab.pictures.rows import limits
from fairseq_posattn.lab.report.drawing import import_matplotlib, printable

DPI, COLOURS = 100, 160
SIDE = 0.12  # margin of the figure
EAST_ASIAN = (
    *(f"Noto Sans CJK {region}" for region in ("JP", "SC", "KR", "TC", "HK")),
    *("Source Han Sans", "IPAGothic", "IPAPGothic", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei"),
    *("Malgun Gothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS"),
)
LINE = 0.175  # height of a line of text
LETTERS = 15.5  # characters per inch at size 8; slightly fewer than fit


def save(picture: Picture, path: Path, kind: str) -> bool:
    """Write the picture to a file; return whether the fonts contain all of its characters."""
    has_all = drawn_with([], picture, path, kind)
    fonts = [] if has_all or kind == "svg" else east_asian_fonts()
    return has_all or (bool(fonts) and drawn_with(fonts, picture, path, kind))


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
    matplotlib = import_matplotlib()
    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        matplotlib.rcdefaults()  # ignore a user's matplotlibrc
        matplotlib.rcParams.update(STYLE)
        if fonts:
            matplotlib.rcParams["font.family"] = ["DejaVu Sans", *fonts]
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


def sheet(picture: Picture):
    words = [printable(word) for word in picture.pieces]
    columns = 1 + max(panel.column for row in picture.rows for panel in row.panels)
    grid = Grid(words, columns, SIDE)
    strips = list(header(picture, grid.width))
    if picture.tree is not None:
        strips.append(tree_strip(picture.tree, grid.width, SIDE))
    for row, limit in zip(picture.rows, limits(picture.rows), strict=True):
        strips.append(Strip(grid.row_height, partial(grid.draw, row=row, limit=limit)))
    return drawn(strips, grid.width)


def header(picture: Picture, width: float) -> Iterator[Strip]:
    """Yield the lines above the matrices: specification, summaries, equations and notes."""
    yield from lines(picture.title, width, weight="bold", size=10.5)
    for name, summary, equation in picture.mechanisms:
        several = len(picture.mechanisms) > 1
        yield from lines(f"{name}: {summary}" if several else summary, width)
        yield from lines(equation, width)
    yield from lines(" ".join(picture.notes), width, color=SOFT)
    yield Strip(0.1, lambda canvas, y: None)


def lines(text: str, width: float, **style) -> Iterator[Strip]:
    size = style.setdefault("size", 8)
    wide = 1.12 if "weight" in style else 1.0  # bold letters are wider
    letters = int((width - 2 * SIDE) * LETTERS * 8 / size / wide)
    for part in textwrap.wrap(printable(text), letters):
        yield Strip(LINE * size / 8, partial(line, text=part, style=style))


def line(canvas: Canvas, y: float, text: str, style: dict) -> None:
    canvas.text(SIDE, y + 0.06, text, **style)


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
        return save(picture, partial, kind)
