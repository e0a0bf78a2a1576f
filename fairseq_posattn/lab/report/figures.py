"""Plot the figures of the report as SVG inside a page; the same data give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fairseq_posattn.lab.report.drawing import INK, Look, drawing, printable
from fairseq_posattn.lab.report.systems import System
from fairseq_posattn.lab.scoring.score_record import range_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

THIRD, HALF, WHOLE = (
    (3.6, 3.0),
    (5.2, 3.3),
    (10.6, 3.5),
)  # inches; three, two or one fit beside each other
KINDS = {
    "length": ("BLEU by length of the source", "words"),
    "depth": ("BLEU by depth of the source’s tree", "depth"),
    "split_words": ("BLEU by words that were split", "split words"),
}
WORD_KINDS = {
    "frequency": ("F1 by how often a word is in the training data", "times in training"),
    "pos": ("F1 by part of speech", ""),
    "relation": ("F1 by relation to the parent", ""),
}
MOST_LABELS = 12  # the labels that most words have are drawn


@dataclass(frozen=True)
class Plotter:
    """Makes the figures of one report; the ids of each begin with its own name."""

    looks: dict[str, Look]

    def gaps(self, systems: Sequence[System], measure: str, name: str) -> str:
        """Plot the gap to the baseline against n; `measure` is bleu or precision."""
        titles = {
            "bleu": "BLEU with n-grams up to n",
            "precision": "Precision of the n-grams of one n",
        }
        with drawing(name, HALF, titles[measure]) as (axes, done):
            axes.axhline(0, color=INK, linewidth=0.9)
            for system in systems:
                gaps = (system.baseline or {}).get("ngrams", [])
                points = [(gap["n"], gap[measure]) for gap in gaps]
                self.line(axes, system, points)
            axes.set_xlabel("n")
            axes.set_ylabel("gap to the baseline")
            locator = cast(
                "MaxNLocator", axes.xaxis.get_major_locator()
            )  # linear axes have this one
            locator.set_params(integer=True)
            axes.yaxis.set_major_formatter(lambda y, _: signed(round(y, 6)))
        return done()

    def buckets(self, systems: Sequence[System], kind: str, name: str, size=HALF) -> str:
        """Plot BLEU of the sentences of each bucket, with their number below it."""
        title, label = KINDS[kind]
        sizes = {(b["from"], b["to"]): b["sentences"] for s in systems for b in s.buckets(kind)}
        order = sorted(sizes, key=lambda ends: ends[0])
        with drawing(name, size, title) as (axes, done):
            for system, aside in zip(systems, asides(len(systems)), strict=True):
                groups = {(b["from"], b["to"]): b for b in system.buckets(kind)}
                there = [
                    (k + aside, groups[ends]) for k, ends in enumerate(order) if ends in groups
                ]
                self.line(axes, system, [(x, bucket["bleu"]) for x, bucket in there])
                self.intervals(axes, system, there)
            labels = [f"{range_name(*ends)}\n{sizes[ends]:,}" for ends in order]
            axes.set_xticks(range(len(order)), labels)
            axes.margins(x=0.06, y=0.12)
            axes.set_xlabel(f"{label} / number of sentences")
            axes.set_ylabel("BLEU")
        return done()

    def words(self, systems: Sequence[System], kind: str, name: str) -> str:
        """Plot F1 of each group of words, with the number of words in the reference below it."""
        title, label = WORD_KINDS[kind]
        sizes = {group["name"]: group["words"] for s in systems for group in s.words(kind)}
        order = list(sizes)[:MOST_LABELS]
        ordered = kind == "frequency"  # a line would join what has no order
        with drawing(name, HALF, title) as (axes, done):
            for system, aside in zip(systems, asides(len(systems)), strict=True):
                groups = {group["name"]: group for group in system.words(kind)}
                there = [(k + aside, groups[one]) for k, one in enumerate(order) if one in groups]
                points = [(x, group["f1"]) for x, group in there]
                self.line(axes, system, points, joined=ordered)
                self.intervals(axes, system, there)
            labels = [f"{printable(group)}\n{sizes[group]:,}" for group in order]
            if ordered:
                axes.set_xticks(range(len(order)), labels)
                axes.set_xlabel(f"{label} / number of words")
            else:
                axes.set_xticks(range(len(order)), list(map(printable, order)), rotation=60)
            axes.margins(x=0.06, y=0.12)
            axes.set_ylabel("F1, %")
        return done()

    def speed(self, systems: Sequence[System], name: str) -> str:
        """Plot a bar for each system, and a lighter one for translation with parsing."""
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

    def bars(self, axes: Axes, row: int, system: System) -> None:
        """Draw the bars of one system."""
        found = [
            (speed, opacity, what)
            for kind, opacity, what in (
                ("translation", 1.0, ""),
                ("with_parsing", 0.45, "  with parsing"),
            )
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
        """Plot the validation loss against updates, and the training loss in a lighter colour."""
        with drawing(name, WHOLE, "Learning curves") as (axes, done):
            for system in systems:
                look, curve = self.looks[system.name], system.training["curve"]
                for key, strength in (("train_loss", 0.35), ("valid_loss", 1.0)):
                    points = [(at["update"], at[key]) for at in curve if at[key] is not None]
                    style: dict[str, Any] = {
                        "color": look.colour,
                        "linestyle": look.line,
                        "alpha": strength,
                    }
                    marker = look.marker if key == "valid_loss" else ""
                    style["markevery"] = max(1, len(points) // 8)
                    width = 1.7 if key == "valid_loss" else 1.2
                    axes.plot(*columns(points), marker=marker, linewidth=width, **style)
            axes.set_xlabel("updates")
            axes.set_ylabel("loss")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        return done()

    def line(
        self,
        axes: Axes,
        system: System,
        points: Sequence[tuple[float, float]],
        joined: bool = True,
    ) -> None:
        """Draw the line of one system, or its points alone."""
        look = self.looks[system.name]
        style = look.line if joined else "none"
        axes.plot(*columns(points), color=look.colour, marker=look.marker, linestyle=style)

    def intervals(self, axes: Axes, system: System, groups: Sequence[tuple[float, dict]]) -> None:
        """Draw the interval of each group that has one, as a thin line at its place."""
        for x, group in groups:
            interval = group.get("interval", [])
            if len(interval) == 2:
                low, high = interval
                colour = self.looks[system.name].colour
                axes.vlines(x, low, high, colors=colour, linewidth=0.9, alpha=0.55)


def asides(systems: int) -> list[float]:
    """Return how far the points of each system stand aside, so that intervals can be told apart."""
    return [0.09 * (k - (systems - 1) / 2) for k in range(systems)]


def columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the x and the y of the points."""
    return [x for x, _ in points], [y for _, y in points]


def signed(number: float, digits: int | None = None) -> str:
    """Return a number with its sign; a minus is a real minus sign, and 0 has no sign.

    Without `digits` the number is as short as it can be.
    """
    size = f"{abs(number):g}" if digits is None else f"{abs(number):.{digits}f}"
    if float(size) == 0:
        return size
    return f"{'−' if number < 0 else '+'}{size}"
