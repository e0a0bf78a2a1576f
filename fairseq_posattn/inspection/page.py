"""Write a picture as an HTML page with tables of coloured cells and an SVG tree, without scripts.

The cells contain the values as text, so that screen readers can read them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairseq_posattn.inspection.picture import Picture
from fairseq_posattn.inspection.plotting import printable
from fairseq_posattn.inspection.rows import Kind, Panel, limits, scale_labels
from fairseq_posattn.trees.drawing import TreeLayout

PAGE = Path(__file__).with_name("page")


class Cell(NamedTuple):
    """A cell of a matrix.

    said: tooltip of the cell.
    strength: intensity of the colour, from 0 to 1.
    sign: CSS class of the colour (positive, negative or mask).
    """

    text: str
    said: str
    strength: str
    sign: str


def render(template: Path, **values: Any) -> str:
    """Render an HTML template in which values are escaped; its style sheet is passed as `css`."""
    environment = Environment(
        loader=FileSystemLoader(template.parent), autoescape=True, undefined=StrictUndefined
    )
    css = Markup(template.with_suffix(".css").read_text(encoding="utf-8"))
    return environment.get_template(template.name).render(css=css, **values)


def page(picture: Picture) -> str:
    words = [printable(word) for word in picture.pieces]
    return render(
        PAGE / "show.html",
        picture=picture,
        words=words,
        tree=Markup(tree_svg(picture.tree)) if picture.tree else "",
        rows=[
            (
                row,
                scale_labels(row, limit),
                [(panel, cells(panel, words, row.kind, limit)) for panel in row.panels],
            )
            for row, limit in zip(picture.rows, limits(picture.rows), strict=True)
        ],
    )


def cells(panel: Panel, words: Sequence[str], kind: Kind, limit: float) -> list[list[Cell]]:
    blocks = panel.blocks or ("",)
    keys = [f"{word} ({block})" if block else word for block in blocks for word in words]
    return [
        [
            cell(value, f"{query} → {key}", kind, limit)
            for value, key in zip(values, keys, strict=True)
        ]
        for values, query in zip(panel.values.tolist(), words, strict=True)
    ]


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


def tree_svg(layout: TreeLayout) -> str:
    """Return a dependency tree as an SVG element, in which all text is escaped."""
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    about = {"class": "tree", **size, "role": "img", "aria-label": "dependency tree"}
    svg = ElementTree.Element("svg", about)
    for edge, shapes in layout.groups():
        about = {"class": "arc root"}
        if edge and edge[0]:
            about = {"class": "arc", "data-parent": str(edge[0]), "data-child": str(edge[1])}
        group = ElementTree.SubElement(svg, "g", about) if edge else svg
        for kind, points, text in shapes:
            _, x, y = points[0]
            place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "middle"}
            path = {"d": "".join(f"{letter}{x:.1f} {y:.1f}" for letter, x, y in points)}
            tag, where = ("path", path) if text is None else ("text", place)
            ElementTree.SubElement(group, tag, {"class": kind, **where}).text = text
    return ElementTree.tostring(svg, encoding="unicode")
