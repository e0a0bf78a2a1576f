"""Write a picture as an HTML page with tables of coloured cells, without scripts.

The cells contain the values as text, so that screen readers can read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fairseq_posattn.lab.pictures.picture import Picture
from fairseq_posattn.lab.pictures.rows import Kind, Panel, Row, limits, scale_labels
from fairseq_posattn.lab.report.arcs import tree_svg
from fairseq_posattn.lab.report.drawing import printable

PAGE = Path(__file__).with_name("page")


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix.

    said: tooltip of the cell.
    strength: intensity of the colour, from 0 to 1.
    sign: CSS class of the colour (positive, negative or mask).
    """

    text: str
    said: str
    strength: str
    sign: str


def page(picture: Picture) -> str:
    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined
    )
    rows = zip(picture.rows, limits(picture.rows), strict=True)
    return environment.get_template("show.html").render(
        picture=picture,
        words=[printable(word) for word in picture.pieces],
        css=(PAGE / "show.css").read_text(encoding="utf-8"),
        tree=tree_svg(picture.tree) if picture.tree else "",
        rows=[
            (row, scale_labels(row, limit), list(tables(picture, row, limit)))
            for row, limit in rows
        ],
    )


def tables(picture: Picture, row: Row, limit: float) -> Iterator[tuple[Panel, list[list[Cell]]]]:
    words = [printable(word) for word in picture.pieces]
    for panel in row.panels:
        names = [
            f"{word} ({block})" if block else word
            for block in panel.blocks or ("",)
            for word in words
        ]
        yield (
            panel,
            [
                [
                    cell(value, f"{query} → {key}", row.kind, limit)
                    for value, key in zip(values, names, strict=True)
                ]
                for values, query in zip(panel.values.tolist(), words, strict=True)
            ],
        )


def cell(value: float, where: str, kind: Kind, limit: float) -> Cell:
    """Return a cell; the colour of a value outside the limits is that of the nearest limit."""
    text = ("yes" if value else "no") if kind == Kind.MASK else number(value)
    share = abs(float(np.nan_to_num(value))) / limit
    if kind == Kind.FIELD:
        share = share**0.5
    sign = kind.value if kind == Kind.MASK else ("negative" if value < 0 else "positive")
    return Cell(text, f"{where}: {text}", f"{min(share, 1.0):.3g}", sign)


def number(value: float) -> str:
    """Format a number for display, with U+2212 as the minus sign."""
    short = ".2f" if abs(value) >= 0.01 else ".1g"
    text = str(value) if isinstance(value, int) else f"{value:{short}}"
    return text.replace("-", "−")
