"""Plot the figures of the report as inline SVG; the output is deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fairseq_posattn.inspection.plotting import INK, printable
from fairseq_posattn.report.drawing import SystemStyle, drawing
from fairseq_posattn.report.systems import (
    buckets_of,
    curve_of,
    gaps_of,
    labels_of,
    speed_of,
    words_of,
)
from fairseq_posattn.scoring.score_record import Part, ScoredSystem, WordGroup, range_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

THIRD, HALF, WHOLE = (3.6, 3.0), (5.2, 3.3), (10.6, 3.5)  # inches, by share of the page's width
KINDS = {  # groups of sentences: title and x-axis label of the figure
    "length": ("{} by length of the source", "words"),
    "depth": ("{} by depth of the source’s tree", "depth"),
    "longest_dependency": ("{} by the longest dependency of the source", "distance in words"),
    "split_words": ("{} by words that were split", "split words"),
}
WORD_KINDS = {
    "frequency": ("F1 by how often a word is in the training data", "times in training"),
    "pos": ("F1 by part of speech", ""),
    "relation": ("F1 by relation to the parent", ""),
}
MOST_LABELS = 12  # only the most frequent labels are drawn


@dataclass(frozen=True)
class Plotter:
    """Plots the figures of a report as SVG.

    In all methods, `name` is the prefix of the SVG ids in the figure.
    """

    styles: dict[str, SystemStyle]

    def gaps(self, systems: Sequence[ScoredSystem], measure: str, name: str) -> str:
        """Plot the difference from the baseline for each n-gram order.

        measure: bleu or precision.
        """
        titles = {
            "bleu": "BLEU with n-grams up to n",
            "precision": "Precision of the n-grams of one n",
        }
        with drawing(name, HALF, titles[measure]) as (axes, done):
            axes.axhline(0, color=INK, linewidth=0.9)
            for system in systems:
                self.line(axes, system, [(g.n, getattr(g, measure)) for g in gaps_of(system)])
            axes.set_xlabel("n")
            axes.set_ylabel("gap to the baseline")
            # linear axes use this locator by default
            cast("MaxNLocator", axes.xaxis.get_major_locator()).set_params(integer=True)
            axes.yaxis.set_major_formatter(lambda y, _: signed(round(y, 6)))
        return done()

    def buckets(self, systems: Sequence[ScoredSystem], kind: str, name: str, size=HALF) -> str:
        """Plot the main score by sentence bucket; the axis labels include the bucket sizes."""
        title, label = KINDS[kind]
        main = main_of(systems)
        found = [{(b.first, b.last): b for b in buckets_of(s, kind)} for s in systems]
        sizes = {ends: b.sentences for groups in found for ends, b in groups.items()}
        order = sorted(sizes, key=lambda ends: ends[0])
        with drawing(name, size, title.format(main)) as (axes, done):
            self.groups(axes, systems, found, order, "value")
            labels = [f"{range_name(*ends)}\n{sizes[ends]:,}" for ends in order]
            axes.set_xticks(range(len(order)), labels)
            axes.set_xlabel(f"{label} / number of sentences")
            axes.set_ylabel(main)
        return done()

    def subsets(
        self, systems: Sequence[ScoredSystem], kind: str, name: str, with_legend: bool = False
    ) -> str:
        """Plot the main score for each sentence label."""
        found = [{part.name: part for part in labels_of(s, kind)} for s in systems]
        order = list(dict.fromkeys(label for groups in found for label in groups))
        main = main_of(systems)
        with drawing(name, WHOLE, f"{main} by {printable(kind)}") as (axes, done):
            self.groups(axes, systems, found, order, "value", joined=False)
            axes.set_xticks(range(len(order)), list(map(printable, order)), rotation=60)
            axes.set_ylabel(main)
            if with_legend:
                axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        return done()

    def words(self, systems: Sequence[ScoredSystem], kind: str, name: str) -> str:
        """Plot the F1 score for each group of words.

        For groups by frequency, the axis labels include the number of words in the reference.
        """
        title, label = WORD_KINDS[kind]
        found = [{group.name: group for group in words_of(s, kind)} for s in systems]
        sizes = {one: group.words for groups in found for one, group in groups.items()}
        order = list(sizes)[:MOST_LABELS]
        ordered = kind == "frequency"  # only ordered groups are joined by a line
        with drawing(name, HALF, title) as (axes, done):
            self.groups(axes, systems, found, order, "f1", joined=ordered)
            if ordered:
                labels = [f"{printable(group)}\n{sizes[group]:,}" for group in order]
                axes.set_xticks(range(len(order)), labels)
                axes.set_xlabel(f"{label} / number of words")
            else:
                axes.set_xticks(range(len(order)), list(map(printable, order)), rotation=60)
            axes.set_ylabel("F1, %")
        return done()

    def groups(
        self,
        axes: Axes,
        systems: Sequence[ScoredSystem],
        found: Sequence[Mapping[Any, Part | WordGroup]],
        order: Sequence[Any],
        measure: str,
        joined: bool = True,
    ) -> None:
        """Draw each system's value for each group, with its confidence interval if known.

        Systems are shifted horizontally, so that their intervals do not overlap.
        """
        for number, (system, groups) in enumerate(zip(systems, found, strict=True)):
            aside = 0.09 * (number - (len(systems) - 1) / 2)
            there = [(k + aside, groups[one]) for k, one in enumerate(order) if one in groups]
            self.line(axes, system, [(x, getattr(one, measure)) for x, one in there], joined)
            colour = self.styles[system.system].colour
            for x, group in there:
                if group.interval and len(group.interval) == 2:
                    low, high = group.interval
                    axes.vlines(x, low, high, colors=colour, linewidth=0.9, alpha=0.55)
        axes.margins(x=0.06, y=0.12)

    def speed(self, systems: Sequence[ScoredSystem], name: str) -> str:
        """Plot the translation speed of each system as a bar; a lighter bar includes parsing."""
        size = (WHOLE[0], 0.9 + 0.42 * len(systems))
        with drawing(name, size, "Sentences translated per second") as (axes, done):
            axes.grid(False)
            for row, system in enumerate(systems):
                plain, parsing = (speed_of(system, k) for k in ("translation", "with_parsing"))
                bars = [] if plain is None else [(plain, 1.0, "")]
                bars += [] if parsing is None else [(parsing, 0.45, "  with parsing")]
                height = 0.62 / max(1, len(bars))
                for k, (speed, opacity, what) in enumerate(bars):
                    y = row + (k - (len(bars) - 1) / 2) * (height + 0.04)
                    colour, text = self.styles[system.system].colour, f"{speed:,.1f}{what}"
                    axes.barh(y, speed, height, color=colour, alpha=opacity)
                    axes.annotate(text, (speed, y), (5, 0), textcoords="offset points", va="center")
            axes.set_yticks(range(len(systems)), [printable(s.system) for s in systems])
            axes.set_ylim(len(systems) - 0.4, -0.6)
            axes.set_xlim(left=0)
            axes.margins(x=0.1)
            axes.spines[["bottom", "left"]].set_visible(False)
            axes.set_xticks([])
        return done()

    def curves(self, systems: Sequence[ScoredSystem], name: str) -> str:
        """Plot validation loss and, in a lighter colour, training loss by number of updates."""
        with drawing(name, WHOLE, "Learning curves") as (axes, done):
            for system in systems:
                style, curve = self.styles[system.system], curve_of(system)
                train = [(at.update, at.train_loss) for at in curve if at.train_loss is not None]
                valid = [(at.update, at.valid_loss) for at in curve if at.valid_loss is not None]
                for points, strength, width, marker in (
                    (train, 0.35, 1.2, ""),
                    (valid, 1.0, 1.7, style.marker),
                ):
                    axes.plot(
                        *columns(points),
                        color=style.colour,
                        linestyle=style.line,
                        linewidth=width,
                        alpha=strength,
                        marker=marker,
                        markevery=max(1, len(points) // 8),
                    )
            axes.set_xlabel("updates")
            axes.set_ylabel("loss")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        return done()

    def line(
        self,
        axes: Axes,
        system: ScoredSystem,
        points: Sequence[tuple[float, float]],
        joined: bool = True,
    ) -> None:
        style = self.styles[system.system]
        line = style.line if joined else "none"
        name = printable(system.system)
        axes.plot(
            *columns(points), color=style.colour, marker=style.marker, linestyle=line, label=name
        )


def main_of(systems: Sequence[ScoredSystem]) -> str:
    return " or ".join(dict.fromkeys(system.main or "BLEU" for system in systems))


def columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def signed(number: float, digits: int | None = None) -> str:
    """Format a number with its sign: U+2212 for minus, and no sign for 0.

    digits: number of decimals (default: as many as needed).
    """
    size = f"{abs(number):g}" if digits is None else f"{abs(number):.{digits}f}"
    if float(size) == 0:
        return size
    return f"{'−' if number < 0 else '+'}{size}"
