"""Add probing results to the report: a plot of accuracies, tables, and maps of heads."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from fairseq_posattn.files.terminal import visible
from fairseq_posattn.inspection.plotting import INK, printable
from fairseq_posattn.probing.agreement import PLACES
from fairseq_posattn.probing.results import (
    TRAINED,
    UNTRAINED,
    HeadAgreement,
    Probes,
    grouped,
    row_name,
)
from fairseq_posattn.probing.tables import Results, Row, all_tables, bounds
from fairseq_posattn.report.drawing import COLOURS, drawing
from fairseq_posattn.report.head_maps import HeadMap, MapGroup, shade
from fairseq_posattn.report.sections import ExtraSection

TITLES = {
    "parent": "Largest weight on the parent, % of words",
    "child": "Largest weight on a child, % of words",
    "previous": "Largest weight on the previous word, %",
    "next": "Largest weight on the next word, %",
}
HEIGHT, WIDTH, STEP = 3.6, 10.6, 0.13


def section(probes: Sequence[Probes], paths: Sequence[str]) -> ExtraSection:
    results = Results(probes, paths)
    figures = [figure(results)] if results.cells else []
    heads = [one for probe in results.probes for one in probe.heads]
    return ExtraSection("probes", "Probes", figures, all_tables(results), list(maps(heads)))


def figure(results: Results) -> Markup:
    """Plot the accuracy and confidence interval of each model by task.

    Open circles represent untrained models.
    """
    rows = [row for row in results.cells if row.kind in (TRAINED, UNTRAINED)]
    systems = list(dict.fromkeys(row.system for row in rows))
    named: set[Row] = set()
    with drawing("probes", (WIDTH, HEIGHT), "Accuracy on test") as (axes, done):
        for place, name in enumerate(results.names):
            majority = results.tasks[name].majority
            axes.hlines(majority, place - 0.4, place + 0.4, colors=INK, linewidth=0.8)
            for number, row in enumerate(rows):
                hits = results.hits(row, name)
                if not len(hits):
                    continue
                x = place + STEP * (number - (len(rows) - 1) / 2) * min(1, 6 / len(rows))
                colour = COLOURS[systems.index(row.system) % len(COLOURS)]
                low, high = bounds(hits)
                axes.vlines(x, 100 * low, 100 * high, colors=colour, linewidth=0.9, alpha=0.55)
                axes.plot(
                    x,
                    100 * hits.mean(),
                    marker="o",
                    markerfacecolor=colour if row.kind == TRAINED else "white",
                    markeredgecolor=colour,
                    markeredgewidth=1.2,
                    linestyle="none",
                    label=None if row in named else label(row),
                )
                named.add(row)
        axes.set_xticks(range(len(results.names)), list(map(printable, results.names)))
        axes.set_ylabel("%")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return Markup(done())


def label(row: Row) -> str:
    name = printable(row.name)
    return f" {name}" if name.startswith("_") else name  # matplotlib omits labels starting with `_`


def maps(heads: Sequence[HeadAgreement]) -> Iterator[MapGroup]:
    """Yield each model's maps, which show how often each head attends most to each of PLACES."""
    for (system, run, kind, trees), found in grouped(heads, "system", "run", "kind", "trees"):
        title = visible(f"{row_name(system, kind)}, run {run}, trees: {trees}")
        yield MapGroup(title, [map_of(found, place) for place in PLACES])


def map_of(heads: Sequence[HeadAgreement], place: str) -> HeadMap:
    """Return the map of all heads for one of PLACES, from white (0 %) to dark (100 %)."""
    layers = grouped(heads, "layer")
    rows = [
        [shade(getattr(one, place), 0, 100, "{:.0f}".format) for one in of_layer]
        for _, of_layer in layers
    ]
    return HeadMap(TITLES[place], rows)
