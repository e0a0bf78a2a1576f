"""Define the style of the report's figures, and convert figures to SVG for the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fairseq_posattn.inspection.plotting import INK, matplotlib_with
from fairseq_posattn.scoring.score_record import ScoredSystem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
PALE, BASELINE = "#d9dde3", "#6b7280"
# Okabe and Ito's palette for colour-blind readers, without yellow and with a darker orange
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#d69500", "#56b4e9"]
MARKERS = {  # matplotlib's name -> SVG path of the same shape, centred at (0, 0), for the legend
    "o": "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "s": "M-2.9-2.9h5.8v5.8h-5.8z",
    "^": "M0-3.6L3.5 2.9h-7z",
    "D": "M0-3.9L3.9 0 0 3.9-3.9 0z",
    "v": "M0 3.6L3.5-2.9h-7z",
}
STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa3af",
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "lines.markeredgewidth": 0,
}


@dataclass(frozen=True)
class SystemStyle:
    """The drawing style of a system, which is the same in all figures."""

    colour: str
    marker: str
    line: str

    @property
    def shape(self) -> str:
        return MARKERS[self.marker]

    @property
    def dashes(self) -> str:
        """The line style as a value of the SVG attribute stroke-dasharray."""
        return {"-": "", "--": "4.5 2.5", ":": "1.5 2"}[self.line]


def styles_of(systems: Sequence[ScoredSystem]) -> dict[str, SystemStyle]:
    """Assign a colour, marker and line style to each system; a baseline that all share is grey."""
    names = dict.fromkeys(system.system for system in systems)
    baselines = {system.baseline.system for system in systems if system.baseline}
    markers, found = cycle(MARKERS), {}
    for name in names:
        if name in baselines and len(baselines) == 1:
            found[name] = SystemStyle(BASELINE, "o", "--")
            continue
        k = len(found) - (BASELINE in {style.colour for style in found.values()})
        line = "-" if k // len(COLOURS) % 2 == 0 else ":"
        found[name] = SystemStyle(COLOURS[k % len(COLOURS)], next(markers), line)
    return found


@contextmanager
def drawing(
    name: str, size: tuple[float, float], title: str
) -> Iterator[tuple[Axes, Callable[[], str]]]:
    """Yield axes to draw on, and a function that returns the SVG after the block has ended."""
    found: list[str] = []
    with matplotlib_with({**STYLE, "svg.hashsalt": name}) as matplotlib, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # browsers can draw letters that matplotlib's font lacks
        figure = matplotlib.figure.Figure(size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        yield axes, lambda: found[0]
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
        found.append(inline(file.getvalue(), name, title))


def inline(text: str, name: str, title: str) -> str:
    """Prepare an SVG for embedding in a page.

    Its style sheet is removed, and all ids are prefixed with `name`.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)  # the style would apply to the whole page
        for key, value in parent.attrib.items():
            parent.attrib[key] = prefixed(key, value, name)
    for key in ("width", "height"):
        root.attrib[f"data-{key}"] = root.attrib.pop(key)
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def alone(text: str) -> str:
    """Convert an SVG returned by `inline` to a standalone SVG with a white background."""
    sized = re.sub(r' data-(width|height)="', r' \1="', text)
    return sized.replace("<svg ", '<svg style="background: white" ', 1)


def prefixed(key: str, value: str, name: str) -> str:
    """Prefix the ids in the value of an SVG attribute with the name of the figure."""
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return re.sub(r"url\(#", f"url(#{name}-", value)
