"""Define how the figures of the report look, and how they get into the page as SVG."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fairseq_posattn.lab import lab_extra
from fairseq_posattn.lab.scoring.score_record import ScoredSystem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
INK, PALE, BASELINE = "#3a4250", "#d9dde3", "#6b7280"
# Okabe and Ito's colours, which the colour-blind tell apart, without yellow, and darker orange
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#d69500", "#56b4e9"]
MARKERS = {  # matplotlib's name -> the same shape around 0, 0 for the legend
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
class Look:
    """Says how a system is drawn in every figure."""

    colour: str
    marker: str
    line: str

    @property
    def shape(self) -> str:
        return MARKERS[self.marker]

    @property
    def dashes(self) -> str:
        """Return the dashes of the line as SVG names them."""
        return {"-": "", "--": "4.5 2.5", ":": "1.5 2"}[self.line]


def looks(systems: Sequence[ScoredSystem]) -> dict[str, Look]:
    """Return a colour and a marker for each name; the only baseline is grey."""
    names = dict.fromkeys(system.system for system in systems)
    baselines = {system.baseline.system for system in systems if system.baseline}
    markers, found = cycle(MARKERS), {}
    for name in names:
        if name in baselines and len(baselines) == 1:
            found[name] = Look(BASELINE, "o", "--")
            continue
        k = len(found) - (BASELINE in {look.colour for look in found.values()})
        line = "-" if k // len(COLOURS) % 2 == 0 else ":"
        found[name] = Look(COLOURS[k % len(COLOURS)], next(markers), line)
    return found


@contextmanager
def drawing(
    name: str, size: tuple[float, float], title: str
) -> Iterator[tuple[Axes, Callable[[], str]]]:
    """Give axes to draw into, and a function that returns the SVG after the block."""
    matplotlib = import_matplotlib()
    found: list[str] = []
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # browsers draw letters that matplotlib's font lacks
        matplotlib.rcdefaults()  # a matplotlibrc must not change the figures
        matplotlib.rcParams.update({**STYLE, "svg.hashsalt": name})
        figure = matplotlib.figure.Figure(size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        yield axes, lambda: found[0]
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
        found.append(inline(file.getvalue(), name, title))


def import_matplotlib():
    """Import matplotlib, which is needed only where a figure is made."""
    # fairseq turns all of its messages on
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    with lab_extra("the figures need"):
        import matplotlib.figure
    return matplotlib


def inline(text: str, name: str, title: str) -> str:
    """Return an SVG that can stand in a page with others: its ids begin with its name, and its
    style is its own."""
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
    """Return such an SVG as a file of its own, on white."""
    sized = re.sub(r' data-(width|height)="', r' \1="', text)
    return sized.replace("<svg ", '<svg style="background: white" ', 1)


def prefixed(key: str, value: str, name: str) -> str:
    """Return the value of an attribute with the name of the figure before each id."""
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return re.sub(r"url\(#", f"url(#{name}-", value)


def printable(name: str) -> str:
    """Return a name without the characters that XML must not hold."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", "\ufffd", name)
