"""The plots of the report, as SVG to stand inside a page: same data, same bytes."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from xml.etree import ElementTree

from fairseq_posattn.evaluation.report_systems import System
from fairseq_posattn.files import InputError

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
INK, PALE, BASELINE = "#3a4250", "#d9dde3", "#6b7280"
# Okabe and Ito's colours, which the colour-blind tell apart, without the yellow; darker orange
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#d69500", "#56b4e9"]
MARKERS = {  # matplotlib's name -> the same around 0, 0 for the legend
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
THIRD, HALF, WHOLE = (3.6, 3.0), (5.2, 3.3), (10.6, 3.5)  # inches: so many beside each other
KINDS = {
    "length": ("BLEU by length of the source", "words"),
    "depth": ("BLEU by depth of the source’s tree", "depth"),
    "split_words": ("BLEU by words that were split", "split words"),
}


@dataclass(frozen=True)
class Look:
    """How a system is drawn, in every figure."""

    colour: str
    marker: str
    line: str

    @property
    def shape(self) -> str:
        return MARKERS[self.marker]

    @property
    def dashes(self) -> str:
        return {"-": "", "--": "4.5 2.5", ":": "1.5 2"}[self.line]


def looks(systems: Sequence[System]) -> dict[str, Look]:
    """A colour and a marker for each name; what others are compared with is grey."""
    names = dict.fromkeys(system.name for system in systems)
    baselines = {system.baseline["system"] for system in systems if system.baseline}
    markers, found = cycle(MARKERS), {}
    for name in names:
        if name in baselines and len(baselines) == 1:
            found[name] = Look(BASELINE, "o", "--")
            continue
        k = len(found) - (BASELINE in {look.colour for look in found.values()})
        line = "-" if k // len(COLOURS) % 2 == 0 else ":"
        found[name] = Look(COLOURS[k % len(COLOURS)], next(markers), line)
    return found


@dataclass(frozen=True)
class Plotter:
    """Makes the figures of one report; each has a name of its own, which its ids begin with."""

    looks: dict[str, Look]

    def gaps(self, systems: Sequence[System], measure: str, name: str) -> str:
        """The gap to the baseline against n; `measure` is bleu or precision."""
        titles = {
            "bleu": "BLEU with n-grams up to n",
            "precision": "Precision of the n-grams of one n",
        }
        with drawing(name, HALF, titles[measure]) as (axes, done):
            axes.axhline(0, color=INK, linewidth=0.9)
            for system in systems:
                points = [(gap["n"], gap[measure]) for gap in system.baseline.get("ngrams", [])]
                self.line(axes, system, points)
            axes.set_xlabel("n")
            axes.set_ylabel("gap to the baseline")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.yaxis.set_major_formatter(lambda y, _: signed(round(y, 6)))
        return done()

    def buckets(self, systems: Sequence[System], kind: str, name: str, size=HALF) -> str:
        """BLEU of the sentences of each bucket, with their number below it."""
        title, label = KINDS[kind]
        sizes = {(b["from"], b["to"]): b["sentences"] for s in systems for b in s.buckets(kind)}
        order = sorted(sizes, key=lambda ends: ends[0])
        with drawing(name, size, title) as (axes, done):
            for system in systems:
                scores = {(b["from"], b["to"]): b["bleu"] for b in system.buckets(kind)}
                points = [(k, scores[ends]) for k, ends in enumerate(order) if ends in scores]
                self.line(axes, system, points)
            labels = [f"{range_label(*ends)}\n{sizes[ends]:,}" for ends in order]
            axes.set_xticks(range(len(order)), labels)
            axes.margins(x=0.06, y=0.12)
            axes.set_xlabel(f"{label} / number of sentences")
            axes.set_ylabel("BLEU")
        return done()

    def speed(self, systems: Sequence[System], name: str) -> str:
        """A bar a system, and a lighter one where it parsed as it translated."""
        size = (WHOLE[0], 0.9 + 0.42 * len(systems))
        with drawing(name, size, "Sentences translated per second") as (axes, done):
            axes.grid(False)
            for row, system in enumerate(systems):
                self.bars(axes, row, system)
            axes.set_yticks(range(len(systems)), [printable(s.name) for s in systems])
            axes.set_ylim(len(systems) - 0.4, -0.6)
            axes.set_xlim(left=0)
            axes.margins(x=0.1)
            axes.spines[["bottom", "left"]].set_visible(False)
            axes.set_xticks([])
        return done()

    def bars(self, axes, row: int, system: System) -> None:
        found = [
            (speed, *how)
            for kind, *how in (("translation", 1.0, ""), ("with_parsing", 0.45, "  with parsing"))
            if (speed := system.sentences_per_second(kind)) is not None
        ]
        height = 0.62 / len(found) if found else 0
        for k, (speed, opacity, what) in enumerate(found):
            y = row + (k - (len(found) - 1) / 2) * (height + 0.04)
            axes.barh(y, speed, height, color=self.looks[system.name].colour, alpha=opacity)
            axes.annotate(
                f"{speed:,.1f}{what}", (speed, y), (5, 0), textcoords="offset points", va="center"
            )

    def curves(self, systems: Sequence[System], name: str) -> str:
        """Validation loss against updates, training loss lighter."""
        with drawing(name, WHOLE, "Learning curves") as (axes, done):
            for system in systems:
                look, curve = self.looks[system.name], system.training["curve"]
                for key, strength in (("train_loss", 0.35), ("valid_loss", 1.0)):
                    points = [(at["update"], at[key]) for at in curve if at[key] is not None]
                    style = {"color": look.colour, "linestyle": look.line, "alpha": strength}
                    marker = look.marker if key == "valid_loss" else ""
                    style["markevery"] = max(1, len(points) // 8)
                    width = 1.7 if key == "valid_loss" else 1.2
                    axes.plot(*columns(points), marker=marker, linewidth=width, **style)
            axes.set_xlabel("updates")
            axes.set_ylabel("loss")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        return done()

    def line(self, axes, system: System, points: Sequence[tuple[float, float]]) -> None:
        look = self.looks[system.name]
        axes.plot(*columns(points), color=look.colour, marker=look.marker, linestyle=look.line)


@contextmanager
def drawing(
    name: str, size: tuple[float, float], title: str
) -> Iterator[tuple[object, Callable[[], str]]]:
    """Axes to draw into, and what gives the SVG after the block."""
    matplotlib = import_matplotlib()
    found: list[str] = []
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font of the layout lacks: browsers draw
        matplotlib.rcdefaults()  # whatever a matplotlibrc says
        matplotlib.rcParams.update({**STYLE, "svg.hashsalt": name})
        figure = matplotlib.figure.Figure(size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        yield axes, lambda: found[0]
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
        found.append(inline(file.getvalue(), name, title))


def import_matplotlib():
    """Only where a figure is made."""
    try:
        logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns all of them on
        import matplotlib.figure
    except ImportError:
        raise InputError(
            "the figures take the package matplotlib: pip install 'fairseq_posattn[plot]'"
        ) from None
    return matplotlib


def inline(text: str, name: str, title: str) -> str:
    """An SVG to stand in a page with others: its ids begin with its name, its style is its own."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)  # the style would hold for the whole page
        for key, value in parent.attrib.items():
            parent.attrib[key] = prefixed(key, value, name)
    for key in ("width", "height"):
        root.attrib[f"data-{key}"] = root.attrib.pop(key)
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def prefixed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return re.sub(r"url\(#", f"url(#{name}-", value)


def columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def range_label(first: int, last: int | None) -> str:
    if last is None:
        return f"≥ {first}"
    return str(first) if first == last else f"{first}–{last}"


def signed(number: float, digits: int | None = None) -> str:
    """With a real minus sign, and none before 0; without `digits` as short as it can be."""
    size = f"{abs(number):g}" if digits is None else f"{abs(number):.{digits}f}"
    if float(size) == 0:
        return size
    return f"{'−' if number < 0 else '+'}{size}"


def printable(name: str) -> str:
    """What XML may hold."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", "\ufffd", name)
