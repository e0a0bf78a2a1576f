"""Write the tables of a recipe as Markdown, CSV and LaTeX, with our and the published figures."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.records import known
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.experiments.recipe_content import Row
from fairseq_posattn.lab.report.systems import differences_of, read_system
from fairseq_posattn.lab.scoring.cells import (
    NONE,
    code_in_markdown,
    escaped,
    in_csv,
    in_markdown,
    p_value,
)
from fairseq_posattn.lab.scoring.score_record import Score, ScoredSystem, Training

MAIN_SCORES = ("NIST BLEU", "BLEU")
SIGNIFICANT = 0.05


@dataclass
class Cell:
    """A cell has the figures of a model on a test set.

    p: of each baseline, by the test over the runs, corrected by Holm; None where there is none.
    """

    system: ScoredSystem | None
    published: float | None
    p: dict[str, float | None] = field(default_factory=dict)

    @property
    def main(self) -> Score | None:
        """Return the main score, or None if there is none."""
        scores = self.system.scores if self.system else {}
        return next((scores[name] for name in MAIN_SCORES if name in scores), None)

    def is_significant(self, baseline: str) -> bool:
        """Return whether the difference to a baseline is significant."""
        p = self.p.get(baseline)
        return p is not None and p < SIGNIFICANT


@dataclass
class Line:
    """A line has the figures of a model on all test sets, and the baselines of its table."""

    row: Row
    cells: dict[str, Cell]
    baselines: Sequence[str]

    @property
    def systems(self) -> list[ScoredSystem]:
        """Return the model's results that are there."""
        return [cell.system for cell in self.cells.values() if cell.system]

    @property
    def runs(self) -> int:
        """Return how many runs were evaluated."""
        return max((system.run_count for system in self.systems), default=0)

    @property
    def training(self) -> Training | None:
        """Return how the model was trained, or None if nobody knows."""
        return next((system.training for system in self.systems if system.training), None)


Results = dict[tuple[str, str, str | None], Path]  # system, test set, baseline -> file


def lines_of(
    rows: Sequence[Row], tests: Sequence[str], results: Results, baselines: Sequence[str] = ()
) -> list[Line]:
    """Return the lines of a table, with the p values of all its tests corrected together.

    baselines: names them in the order of their columns; bold is what differs from the first.
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
    """Correct the p values of all tests; A against B and B against A are one test."""
    one: dict[object, list[tuple[Cell, str]]] = {}
    for test, row, baseline, cell in tests:
        if cell.p[baseline] is not None:
            pair = frozenset((row.title, baseline))
            one.setdefault((test, row.size, pair), []).append((cell, baseline))
    from fairseq_posattn.lab.scoring.statistics import holm  # a dry run has no numpy

    values = [cells[0][0].p[cells[0][1]] or 0.0 for cells in one.values()]
    for cells, p in zip(one.values(), holm(values), strict=True):
        for cell, baseline in cells:
            cell.p[baseline] = p


def welch_p(system: ScoredSystem) -> float | None:
    """Return p of the difference of the main score over the runs, or None for single runs."""
    scores = differences_of(system)
    return next((known(scores[name].welch_p) for name in MAIN_SCORES if name in scores), None)


def cells_of(lines: Sequence[Line], plain: bool) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table as text.

    plain: numbers stand alone, for programs; otherwise a deviation stands beside its mean.
    """
    baselines, tests = lines[0].baselines, list(lines[0].cells)
    head = ["model", "size", "runs"]
    for test in tests:
        start = f"{test} " if len(tests) > 1 or plain else ""
        head += [f"{start}BLEU", *([f"{start}deviation"] if plain else [])]
        head += [f"{start}p against {name}" for name in baselines]
        head += [f"{start}published"]
    head += ["parameters", "training words/s", "paper"]
    rows = []
    for line in lines:
        row = [line.row.title, line.row.size, str(line.runs or NONE)]
        for test in tests:
            row += score_cells(line.cells[test], baselines, plain)
        rows.append([*row, *training_cells(line, plain), line.row.paper])
    return head, rows


def score_cells(cell: Cell, baselines: Sequence[str], plain: bool) -> list[str]:
    """Return the cells of a model on one test set."""
    main = cell.main
    mean = f"{main.score:.2f}" if main else NONE
    deviation = known(main.deviation) if main else None
    spread = "" if deviation is None else f"{deviation:.2f}"
    published = f"{cell.published:.2f}" if cell.published is not None else NONE
    p = [p_value(cell.p.get(name), plain) for name in baselines]
    if plain:
        return [mean, spread or NONE, *p, published]
    return [f"{mean} ± {spread}" if spread else mean, *p, published]


def training_cells(line: Line, plain: bool) -> list[str]:
    """Return the number of parameters and the speed of the training."""
    training = line.training
    parameters = training.parameters if training else None
    speed = training.words_per_second if training else None
    if plain:
        return [str(parameters or NONE), f"{speed:.0f}" if speed else NONE]
    return [
        f"{parameters / 1e6:.1f} M" if parameters else NONE,
        f"{speed:,.0f}" if speed else NONE,
    ]


def markdown(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    head, rows = cells_of(lines, plain=False)
    yield "| " + " | ".join(map(in_markdown, head)) + " |"
    yield "|" + "---|" * len(head)
    for line, row in zip(lines, rows, strict=True):
        cells = [code_in_markdown(row[0]), *map(in_markdown, row[1:])]
        yield "| " + " | ".join(bold(line, cells, "**{}**".format)) + " |"
    yield from ("", *notes(lines))


def bold(line: Line, row: list[str], mark) -> list[str]:
    """Return a row with those scores in bold that differ significantly from the first baseline."""
    row, place = list(row), 3
    for cell in line.cells.values():
        width = (len(row) - 6) // len(line.cells)
        if line.baselines and cell.is_significant(line.baselines[0]):
            row[place] = mark(row[place])
        place += width
    return row


def latex(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of the table in LaTeX, with the rules of the package booktabs."""
    head, rows = cells_of(lines, plain=False)
    yield r"% \usepackage{booktabs}"
    yield rf"\begin{{tabular}}{{ll{'r' * (len(head) - 3)}l}}"
    yield r"\toprule"
    yield " & ".join(map(escaped, head)) + r" \\"
    yield r"\midrule"
    for before, (line, row) in zip([None, *lines], zip(lines, rows, strict=True), strict=False):
        if before is not None and before.row.size != line.row.size:
            yield r"\midrule"
        cells = [escaped(cell) for cell in row]
        yield " & ".join(bold(line, cells, r"\textbf{{{}}}".format)) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield from (f"% {note}" for note in notes(lines))


def notes(lines: Sequence[Line]) -> Iterator[str]:
    """Yield what must be known to read the table."""
    yield from map(visible, all_notes(lines))


def all_notes(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the notes with names as they are."""
    if baselines := lines[0].baselines:
        if any(
            p is not None for line in lines for cell in line.cells.values() for p in cell.p.values()
        ):
            yield (
                "p: Welch's t test over the runs, corrected by Holm for all tests of this table; "
                f"bold: different from {baselines[0]} (of the same size) with p < {SIGNIFICANT}."
            )
            yield from few_runs(max(line.runs for line in lines))
        else:
            yield "With single runs no difference is called significant: new ones may differ."
    signatures: dict[str, None] = {}
    for line in lines:
        for system in line.systems:
            for name in MAIN_SCORES:
                if name in system.scores:
                    signatures[f"{name}: `{system.scores[name].signature}`"] = None
                    break
    if signatures:
        yield "; ".join(signatures) + "."


def few_runs(runs: int) -> Iterator[str]:
    """Yield what so few runs cannot show."""
    from fairseq_posattn.lab.scoring.statistics import smallest_exact  # a dry run has no numpy

    smallest = smallest_exact(runs, runs)
    if smallest > 0.01:
        yield (
            f"With {runs} + {runs} runs no exact permutation of the runs can go below "
            f"p = {smallest:.2g}; Welch's test takes the scores of runs to be normally distributed."
        )


def write_tables(lines: Sequence[Line], start: Path) -> list[str]:
    """Write START.md, START.csv and START.tex, and return the lines of the first."""
    text = list(markdown(lines))
    head, rows = cells_of(lines, plain=True)
    with written_whole(f"{start}.md") as file:
        file.writelines(f"{line}\n" for line in text)
    with written_whole(f"{start}.csv") as file:
        cells = [["" if cell == NONE else in_csv(cell) for cell in row] for row in [head, *rows]]
        csv.writer(file, lineterminator="\n").writerows(cells)
    with written_whole(f"{start}.tex") as file:
        file.writelines(f"{line}\n" for line in latex(lines))
    return text
