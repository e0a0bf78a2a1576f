"""Write the tables and plots of a translation recipe, with measured and published scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.records import known
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.report.drawing import alone, looks
from fairseq_posattn.lab.report.figures import Plotter
from fairseq_posattn.lab.report.systems import (
    by_test,
    differences_of,
    read_system,
    read_systems,
)
from fairseq_posattn.lab.scoring import plain_tables
from fairseq_posattn.lab.scoring.cells import NONE, p_value
from fairseq_posattn.lab.scoring.plain_tables import Figures, Marked, Table
from fairseq_posattn.lab.scoring.score_record import Score, ScoredSystem, Training

SIGNIFICANT = 0.05


@dataclass
class Cell:
    """The scores of a model on one test set.

    p: for each baseline, the p-value of Welch's t-test over the runs after Holm's correction, or
        None for single runs.
    """

    system: ScoredSystem | None
    published: float | None
    p: dict[str, float | None] = field(default_factory=dict)

    @property
    def main(self) -> Score | None:
        return self.system.scores.get(self.system.main_score) if self.system else None

    def is_significant(self, baseline: str) -> bool:
        p = self.p.get(baseline)
        return p is not None and p < SIGNIFICANT


@dataclass
class Line:
    """A row of the table: the scores of a model on all test sets.

    baselines: names of the baselines in the table.
    """

    row: Row
    cells: dict[str, Cell]
    baselines: Sequence[str]

    @property
    def systems(self) -> list[ScoredSystem]:
        return [cell.system for cell in self.cells.values() if cell.system]

    @property
    def runs(self) -> int:
        return max((system.run_count for system in self.systems), default=0)

    @property
    def training(self) -> Training | None:
        return next((system.training for system in self.systems if system.training), None)


Points = Mapping[tuple[str, int], float]  # label of a series in a sweep and option value -> score
Results = dict[tuple[str, str, str | None], Path]  # system, test set, baseline -> file


def lines_of(
    rows: Sequence[Row], tests: Sequence[str], results: Results, baselines: Sequence[str] = ()
) -> list[Line]:
    """Return the rows of a table; Holm's correction covers all of its significance tests.

    baselines: names in the order of their columns; scores that differ significantly from the first
        baseline are bold.
    """
    found, raw = [], []
    for row in rows:
        cells = {}
        for test in tests:
            of_baselines = {
                baseline: read_system(path)
                for (system, of_test, baseline), path in results.items()
                if (system, of_test) == (row.system, test)
            }
            cell = Cell(next(iter(of_baselines.values()), None), row.published.get(test))
            cells[test] = cell
            for baseline, compared in of_baselines.items():
                if baseline is not None and baseline != row.title:
                    cell.p[baseline] = welch_p(compared)
                    raw.append((test, row, baseline, cell))
        found.append(Line(row, cells, baselines))
    correct(raw)
    return found


def correct(tests: Sequence[tuple[str, Row, str, Cell]]) -> None:
    """Apply Holm's correction to all p-values.

    Comparing A with B and comparing B with A count as one test.
    """
    from fairseq_posattn.lab.scoring.statistics import holm  # dry runs work without numpy

    one: dict[object, list[tuple[Cell, str]]] = {}
    for test, row, baseline, cell in tests:
        if cell.p[baseline] is not None:
            pair = frozenset((row.title, baseline))
            one.setdefault((test, row.size, pair), []).append((cell, baseline))
    values = [cells[0][0].p[cells[0][1]] or 0.0 for cells in one.values()]
    for cells, p in zip(one.values(), holm(values), strict=True):
        for cell, baseline in cells:
            cell.p[baseline] = p


def welch_p(system: ScoredSystem) -> float | None:
    """Return the p-value of Welch's t-test for the main score, or None for single runs."""
    compared = differences_of(system).get(system.main_score)
    return known(compared.welch_p) if compared else None


def table_of(lines: Sequence[Line]) -> Table:
    """Format the rows as a result table.

    In CSV files, the column names start with the name of the test set. The columns for published
    scores are omitted if no row contains any.
    """
    baselines, tests = lines[0].baselines, list(lines[0].cells)
    main = next((s.main for line in lines for s in line.systems if s.main), "BLEU")
    published = ["published"] if any(line.row.published for line in lines) else []
    paper = ["paper"] if any(line.row.paper for line in lines) else []
    head, columns = ["model", "size", "runs"], {}
    for test in tests:
        start = f"{test} " if len(tests) > 1 else ""
        for name in (main, *(f"p against {name}" for name in baselines), *published):
            head.append(f"{start}{name}")
            more = ["deviation"] if name == main else []
            columns[head[-1]] = [f"{test} {column}" for column in (name, *more)]
    head += ["parameters", "training words/s", *paper]
    rows = []
    for line in lines:
        row: list[str | Figures | Marked] = [Marked(line.row.title, is_code=True), line.row.size]
        row.append(str(line.runs or NONE))
        for cell in line.cells.values():
            row += score_cells(cell, baselines)
            row += [published_cell(cell)] if published else []
        rows.append([*row, *training_cells(line.training), *([line.row.paper] if paper else [])])
    parts = [
        k for k, (one, other) in enumerate(pairwise(lines), 1) if one.row.size != other.row.size
    ]
    alignment = f"ll{'r' * (len(head) - 2 - len(paper))}{'l' * len(paper)}"
    return Table("", head, rows, list(notes(lines)), columns, alignment, parts)


def score_cells(cell: Cell, baselines: Sequence[str]) -> Iterator[str | Marked]:
    """Yield the table cells of a model for one test set: its score, and a p-value per baseline.

    The score is bold if it differs significantly from that of the first baseline.
    """
    main = cell.main
    mean = f"{main.score:.2f}" if main else NONE
    deviation = known(main.deviation) if main else None
    spread = "" if deviation is None else f"{deviation:.2f}"
    is_bold = bool(baselines) and cell.is_significant(baselines[0])
    yield Marked(f"{mean} ± {spread}" if spread else mean, [mean, spread], is_bold)
    for name in baselines:
        p = cell.p.get(name)
        yield Marked(p_value(p, plain=False), [p_value(p, plain=True)])


def published_cell(cell: Cell) -> str:
    return f"{cell.published:.2f}" if cell.published is not None else NONE


def training_cells(training: Training | None) -> Iterator[str | Marked]:
    parameters = training.parameters if training else None
    speed = training.words_per_second if training else None
    yield Marked(f"{parameters / 1e6:.1f} M", [str(parameters)]) if parameters else NONE
    yield Marked(f"{speed:,.0f}", [f"{speed:.0f}"]) if speed else NONE


def notes(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the notes below the table, on significance tests and on the signatures of scores."""
    if baselines := lines[0].baselines:
        if any(
            p is not None for line in lines for cell in line.cells.values() for p in cell.p.values()
        ):
            yield (
                "p: Welch's t-test over the runs, with Holm's correction for all tests in this "
                f"table; bold: differs from {baselines[0]} (same size) with p < {SIGNIFICANT}."
            )
            yield from few_runs(lines)
        else:
            yield "Differences between single runs are not tested for significance."
    signatures: dict[str, None] = {}
    for line in lines:
        for system in line.systems:
            if found := system.scores.get(system.main_score):
                signatures[f"{system.main_score}: `{found.signature}`"] = None
    if signatures:
        yield "; ".join(signatures) + "."


def few_runs(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a note if an exact permutation test cannot reach p = 0.01 with this number of runs."""
    from fairseq_posattn.lab.scoring.statistics import smallest_exact  # dry runs work without numpy

    runs = {(line.row.title, line.row.size): line.runs for line in lines}
    pairs = {
        (runs[baseline, line.row.size], line.runs)
        for line in lines
        for cell in line.cells.values()
        for baseline, p in cell.p.items()
        if p is not None
    }
    smallest, before, after = max((smallest_exact(*pair), *pair) for pair in pairs)
    if smallest > 0.01:
        yield (
            f"With {before} + {after} runs, no exact permutation test can reach a p-value below "
            f"{smallest:.2g}; Welch's t-test assumes that the scores of runs are normally "
            "distributed."
        )


def write_tables(lines: Sequence[Line], start: Path) -> list[str]:
    return plain_tables.write([table_of(lines)], start)


def write_parts(
    paths: Iterable[Path], published: Mapping[str, Mapping[str, float]], start: Path
) -> None:
    """Write START.md, START.csv and START.tex with the main score on parts of the test sets.

    For parts defined by labels of sentences (`--subsets`), the tables are also printed, and the
    scores are plotted in START.TEST.NAME.svg.
    """
    from fairseq_posattn.lab.scoring.part_tables import part_tables  # dry runs work without numpy

    systems = read_systems(list(paths))
    if tables := part_tables(systems, published):
        plain_tables.write(tables, start)
    labelled = [replace(system, buckets={}) for system in systems]
    if shown := part_tables(labelled, published):
        print("\n".join(["", *plain_tables.markdown(shown)]))
    plotter = Plotter(looks(systems))
    for test, group in by_test([system for system in systems if system.subsets]).items():
        for name in dict.fromkeys(name for system in group for name in system.subsets):
            figure = plotter.subsets(group, name, "subsets", with_legend=True)
            with written_whole(f"{start}.{test}.{name}.svg") as file:
                file.write(alone(figure))


def main_of(path: Path, main: str = "BLEU") -> float:
    scores = read_system(path).scores
    if main not in scores:
        raise InputError(f"{path}: the file contains no {main}; delete it and run sweep.sh again")
    return float(scores[main].score)


def write_sweep(points: Points, base: float, start: Path, main: str = "BLEU") -> str:
    """Write the table START.md and the plot START.png, and return the text of START.md."""
    draw(points, base, Path(f"{start}.png"), main)
    rows = [[label, str(value), f"{score:.2f}"] for (label, value), score in points.items()]
    rows.insert(0, ["without", NONE, f"{base:.2f}"])
    table = Table("", ["series", "value", main], rows)
    text = "".join(f"{line}\n" for line in plain_tables.markdown([table]))
    with written_whole(f"{start}.md") as file:
        file.write(text)
    return text


def draw(points: Points, base: float, out: Path, main: str) -> None:
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(label for label, _ in points))
    figure = Figure(figsize=(4.5 * len(labels), 3.4), layout="constrained")
    sides = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for side, label in zip(sides, labels, strict=True):
        of_label = [(value, score) for (series, value), score in points.items() if series == label]
        side.axhline(base, color="0.5", linestyle="--", label="without")
        side.plot(*zip(*of_label, strict=True), marker="o")
        side.set_xticks([value for value, _ in of_label])
        side.set_xlabel(label)
        side.grid(axis="y", color="0.9")
    sides[0].set_ylabel(main)
    sides[0].legend(frameon=False)
    with replaced_whole(out) as partial:
        figure.savefig(partial, format="png", dpi=150)
