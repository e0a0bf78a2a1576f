"""Write the tables and plots of a translation recipe, with measured and published scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.records import known
from fairseq_posattn.report.drawing import alone, styles_of
from fairseq_posattn.report.figures import Plotter
from fairseq_posattn.report.systems import (
    by_test,
    differences_of,
    read_system,
    read_systems,
)
from fairseq_posattn.scoring.score_record import Score, ScoredSystem, Training
from fairseq_posattn.scoring.tables import NONE, Cell, Table, markdown, p_value, write_tables

SIGNIFICANT = 0.05


@dataclass
class Result:
    """The scores of a model on one test set.

    p: for each baseline, the p-value of Welch's t-test over the runs after Holm's correction, or
        None for single runs.
    """

    system: ScoredSystem | None
    published: float | None
    p: dict[str, float | None]

    @property
    def main(self) -> Score | None:
        return self.system.scores.get(self.system.main_score) if self.system else None


@dataclass
class Line:
    """A row of the table: the scores of a model on all test sets.

    baselines: names of the baselines in the table.
    """

    row: Row
    results: dict[str, Result]
    baselines: Sequence[str]

    @property
    def systems(self) -> list[ScoredSystem]:
        return [result.system for result in self.results.values() if result.system]

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
    lines = []
    for row in rows:
        of_row = {}
        for test in tests:
            systems = {
                baseline: read_system(path)
                for (system, of_test, baseline), path in results.items()
                if (system, of_test) == (row.system, test)
            }
            p = {
                baseline: welch_p(system)
                for baseline, system in systems.items()
                if baseline is not None and baseline != row.title
            }
            system = next(iter(systems.values()), None)
            of_row[test] = Result(system, row.published.get(test), p)
        lines.append(Line(row, of_row, baselines))
    correct(lines)
    return lines


def correct(lines: Sequence[Line]) -> None:
    """Apply Holm's correction to all p-values.

    Comparing A with B and comparing B with A count as one test.
    """
    from fairseq_posattn.scoring.statistics import holm  # dry runs work without numpy

    tests: dict[object, float] = {}
    places = []
    for line in lines:
        for test, result in line.results.items():
            for baseline, p in result.p.items():
                if p is not None:
                    key = test, line.row.size, frozenset((line.row.title, baseline))
                    tests.setdefault(key, p)
                    places.append((result.p, baseline, key))
    corrected = dict(zip(tests, holm(list(tests.values())), strict=True))
    for of_result, baseline, key in places:
        of_result[baseline] = corrected[key]


def welch_p(system: ScoredSystem) -> float | None:
    """Return the p-value of Welch's t-test for the main score, or None for single runs."""
    compared = differences_of(system).get(system.main_score)
    return known(compared.welch_p) if compared else None


def table_of(lines: Sequence[Line]) -> Table:
    """Format the rows as a result table.

    In CSV files, the column names start with the name of the test set. The columns for published
    scores are omitted if no row contains any.
    """
    baselines, tests = lines[0].baselines, list(lines[0].results)
    main = next((s.main for line in lines for s in line.systems if s.main), "BLEU")
    columns: dict[str, list[str | Cell]] = {
        "model": [Cell(line.row.title, is_code=True) for line in lines],
        "size": [line.row.size for line in lines],
        "runs": [str(line.runs or NONE) for line in lines],
    }
    for test in tests:
        results = [line.results[test] for line in lines]
        of_test: dict[str, list[str | Cell]] = {
            main: [score_cell(result, test, main, baselines) for result in results]
        }
        for name in baselines:
            title, p = f"p against {name}", [result.p.get(name) for result in results]
            of_test[title] = [Cell(p_value(x), {f"{test} {title}": p_value(x, True)}) for x in p]
        if any(line.row.published for line in lines):
            scores = [NONE if r.published is None else f"{r.published:.2f}" for r in results]
            of_test["published"] = [Cell(text, {f"{test} published": text}) for text in scores]
        start = f"{test} " if len(tests) > 1 else ""
        columns |= {f"{start}{title}": cells for title, cells in of_test.items()}
    columns["parameters"] = [training_cell(line, "parameters", "{:.1f} M", 1e6) for line in lines]
    columns["training words/s"] = [training_cell(line, "words_per_second") for line in lines]
    alignment = f"ll{'r' * (len(columns) - 2)}"
    if any(line.row.paper for line in lines):
        columns["paper"] = [line.row.paper for line in lines]
        alignment += "l"
    sizes = [line.row.size for line in lines]
    parts = [k for k, (one, other) in enumerate(pairwise(sizes), 1) if one != other]
    rows = list(zip(*columns.values(), strict=True))
    return Table("", list(columns), rows, list(notes(lines)), alignment, parts)


def score_cell(result: Result, test: str, main: str, baselines: Sequence[str]) -> Cell:
    """Return a cell with a score, in bold if it differs significantly from the first baseline's."""
    score = result.main
    mean = f"{score.score:.2f}" if score else NONE
    deviation = known(score.deviation) if score else None
    spread = "" if deviation is None else f"{deviation:.2f}"
    p = result.p.get(baselines[0]) if baselines else None
    return Cell(
        f"{mean} ± {spread}" if spread else mean,
        {f"{test} {main}": mean, f"{test} deviation": spread},
        is_bold=p is not None and p < SIGNIFICANT,
    )


def training_cell(line: Line, name: str, layout: str = "{:,.0f}", unit: float = 1) -> Cell:
    number = getattr(line.training, name, None)
    return Cell(layout.format(number / unit), {"": f"{number:.0f}"}) if number else Cell(NONE)


def notes(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the notes below the table, on significance tests and on the signatures of scores."""
    if baselines := lines[0].baselines:
        pairs = tested_runs(lines)
        if pairs:
            yield (
                "p: Welch's t-test over the runs, with Holm's correction for all tests in this "
                f"table; bold: differs from {baselines[0]} (same size) with p < {SIGNIFICANT}."
            )
            yield from few_runs(pairs)
        else:
            yield "Differences between single runs are not tested for significance."
    signatures: dict[str, None] = {}
    for line in lines:
        for system in line.systems:
            if found := system.scores.get(system.main_score):
                signatures[f"{system.main_score}: `{found.signature}`"] = None
    if signatures:
        yield "; ".join(signatures) + "."


def tested_runs(lines: Sequence[Line]) -> set[tuple[int, int]]:
    """Return the numbers of runs of the baseline and of the model for each significance test."""
    runs = {(line.row.title, line.row.size): line.runs for line in lines}
    return {
        (runs[baseline, line.row.size], line.runs)
        for line in lines
        for result in line.results.values()
        for baseline, p in result.p.items()
        if p is not None
    }


def few_runs(pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield a note if an exact permutation test cannot reach p = 0.01 with this number of runs."""
    from fairseq_posattn.scoring.statistics import smallest_exact  # dry runs work without numpy

    smallest, before, after = max((smallest_exact(*pair), *pair) for pair in pairs)
    if smallest > 0.01:
        yield (
            f"With {before} + {after} runs, no exact permutation test can reach a p-value below "
            f"{smallest:.2g}; Welch's t-test assumes that the scores of runs are normally "
            "distributed."
        )


def write_parts(
    paths: Iterable[Path], published: Mapping[str, Mapping[str, float]], start: Path
) -> None:
    """Write START.md, START.csv and START.tex with the main score on parts of the test sets.

    For parts defined by labels of sentences (`--subsets`), the tables are also printed, and the
    scores are plotted in START.TEST.NAME.svg.
    """
    from fairseq_posattn.scoring.system_tables import part_tables  # dry runs work without numpy

    systems = read_systems(list(paths))
    if tables := part_tables(systems, published):
        write_tables(tables, start)
    labelled = [replace(system, buckets={}) for system in systems]
    if shown := part_tables(labelled, published):
        print("\n".join(["", *markdown(shown)]))
    plotter = Plotter(styles_of(systems))
    for test, group in by_test([system for system in systems if system.subsets]).items():
        for name in dict.fromkeys(name for system in group for name in system.subsets):
            figure = plotter.subsets(group, name, "subsets", with_legend=True)
            with written_whole(f"{start}.{test}.{name}.svg") as file:
                file.write(alone(figure))


def main_of(path: Path, main: str = "BLEU") -> float:
    scores = read_system(path).scores
    if main not in scores:
        raise InputError(f"{path}: the file contains no {main} score; delete it and rerun sweep.sh")
    return float(scores[main].score)


def write_sweep(points: Points, base: float, start: Path, main: str = "BLEU") -> str:
    """Write the table START.md and the plot START.png, and return the text of START.md."""
    draw(points, base, Path(f"{start}.png"), main)
    rows = [[label, str(value), f"{score:.2f}"] for (label, value), score in points.items()]
    rows.insert(0, ["without", NONE, f"{base:.2f}"])
    table = Table("", ["series", "value", main], rows)
    text = "".join(f"{line}\n" for line in markdown([table]))
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
