"""Write tables as Markdown, CSV and LaTeX.

Example:

    table = Table("BLEU", ["model", "dev"], [["baseline", Figures([20.1, 20.5])]])
    write([table], Path("table"))  # table.md, table.csv and table.tex
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.scoring.cells import (
    NONE,
    code_in_markdown,
    escaped,
    in_csv,
    in_markdown,
    p_value,
)


@dataclass(frozen=True)
class Figures:
    """A cell that shows the numbers of several runs as mean ± standard deviation.

    as_range: show the minimum and maximum instead of the standard deviation.
    """

    values: Sequence[float]
    digits: int = 2
    as_range: bool = False

    def __str__(self) -> str:
        shown = [NONE if n is None else f"{n:,.{self.digits}f}" for n in self.numbers()]
        if len(self.values) < 2:
            return shown[0]
        if self.as_range:
            return f"{shown[0]} ({shown[1]} to {shown[2]})"
        return f"{shown[0]} ± {shown[1]}"

    def numbers(self) -> list[float | None]:
        """Return the mean and either the standard deviation or the minimum and maximum."""
        values = self.values
        if not values:
            return [None] * (3 if self.as_range else 2)
        if self.as_range:
            return [mean(values), min(values), max(values)]
        return [mean(values), stdev(values) if len(values) > 1 else None]

    def plain(self, with_spread: bool) -> list[str]:
        """Return the CSV cells: the mean and, if `with_spread`, the other numbers."""
        numbers = self.numbers()[: None if with_spread else 1]
        return ["" if n is None else f"{n:.{self.digits}f}" for n in numbers]

    def heads(self, head: str, with_spread: bool) -> list[str]:
        more = ("lowest", "highest") if self.as_range else ("deviation",)
        return [head, *(f"{head} {name}" for name in more if with_spread)]


@dataclass(frozen=True)
class Marked:
    """A cell whose text is set in bold or as code, or that has different contents in CSV.

    values: the CSV cells, one for each title that Table.columns lists for the column.
    """

    text: str
    values: Sequence[str] = ()
    is_bold: bool = False
    is_code: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A table with an optional title. Invisible characters are escaped.

    columns: for each column that is split into several in CSV, the titles of these CSV columns.
    alignment: the alignment of the columns in LaTeX (default: the first left, the others right).
    parts: the indices of rows with a horizontal line directly above them in LaTeX.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Figures | Marked]]
    notes: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alignment: str = ""
    parts: Sequence[int] = ()

    def __post_init__(self) -> None:
        rows = [[visible(c) if isinstance(c, str) else c for c in row] for row in self.rows]
        texts = {"head": list(map(visible, self.head)), "notes": list(map(visible, self.notes))}
        for name, shown in {"title": visible(self.title), "rows": rows, **texts}.items():
            object.__setattr__(self, name, shown)


def markdown(tables: Sequence[Table]) -> Iterator[str]:
    for number, table in enumerate(tables):
        yield from [""] if number else []
        yield from (f"{table.title}:", "") if table.title else ()
        yield "| " + " | ".join(map(in_markdown, table.head)) + " |"
        yield "|" + "---|" * len(table.head)
        for row in table.rows:
            yield "| " + " | ".join(map(cell_in_markdown, row)) + " |"
        if table.notes:
            yield from ("", *table.notes)


def cell_in_markdown(cell: str | Figures | Marked) -> str:
    text = str(cell)
    if not isinstance(cell, Marked):
        return in_markdown(text)
    text = code_in_markdown(text) if cell.is_code else in_markdown(text)
    return f"**{text}**" if cell.is_bold else text


def cell_in_latex(cell: str | Figures | Marked) -> str:
    text = escaped(str(cell))
    return rf"\textbf{{{text}}}" if isinstance(cell, Marked) and cell.is_bold else text


def latex(tables: Sequence[Table]) -> Iterator[str]:
    """Yield the lines of the tables in LaTeX, with the rules of the booktabs package."""
    yield r"% \usepackage{booktabs}"
    for table in tables:
        yield from [f"% {table.title}"] if table.title else []
        alignment = table.alignment or f"l{'r' * (len(table.head) - 1)}"
        yield rf"\begin{{tabular}}{{{alignment}}}"
        yield r"\toprule"
        yield " & ".join(map(escaped, table.head)) + r" \\"
        yield r"\midrule"
        for number, row in enumerate(table.rows):
            yield from [r"\midrule"] if number in table.parts else []
            yield " & ".join(map(cell_in_latex, row)) + r" \\"
        yield r"\bottomrule"
        yield r"\end{tabular}"
        yield from (f"% {note}" for note in table.notes)


def rows_for_programs(tables: Sequence[Table]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file; each row starts with the title of its table, if any."""
    for table in tables:
        columns = list(zip(*table.rows, strict=True))
        spread = [any(isinstance(c, Figures) and len(c.values) > 1 for c in col) for col in columns]
        titled = [in_csv(table.title)] if table.title else []
        heads = ["table"] if table.title else []
        figures = [next((c for c in col if isinstance(c, Figures)), None) for col in columns]
        for head, kind, with_spread in zip(table.head, figures, spread, strict=True):
            heads += kind.heads(head, with_spread) if kind else table.columns.get(head, [head])
        yield list(map(in_csv, heads))
        for row in table.rows:
            cells = [*titled]
            for cell, kind, with_spread in zip(row, figures, spread, strict=True):
                if isinstance(cell, Figures):
                    cells += cell.plain(with_spread)
                    continue
                values = cell.values if isinstance(cell, Marked) else ()
                cells += map(in_csv, values or [str(cell)])
                if kind:  # text in a column of numbers has no standard deviation
                    cells += [""] * (len(kind.heads("", with_spread)) - 1)
            yield ["" if cell == NONE else cell for cell in cells]


def write(tables: Sequence[Table], start: Path) -> list[str]:
    """Write START.md, START.csv and START.tex, and return the lines of START.md."""
    text = list(markdown(tables))
    for end, lines in (("md", text), ("tex", list(latex(tables)))):
        with written_whole(f"{start}.{end}") as file:
            file.writelines(f"{line}\n" for line in lines)
    with written_whole(f"{start}.csv") as file:
        csv.writer(file, lineterminator="\n").writerows(rows_for_programs(tables))
    return text


def p_values(
    figures: Mapping[str, Mapping[str, Sequence[float]]], baseline: str
) -> dict[tuple[str, str], str]:
    """Return the p-values of Welch's t-test between each model and the baseline on each corpus.

    Holm's correction is applied over all p-values.

    figures: the scores of all runs, by corpus and by model.
    """
    # imported here, because a dry run does not require numpy
    from fairseq_posattn.lab.scoring.statistics import holm, welch

    raw = {}
    for corpus, models in figures.items():
        for model, values in models.items():
            p = welch(models.get(baseline, ()), values)
            if p is not None and model != baseline:
                raw[corpus, model] = p
    corrected = holm(list(raw.values()))
    return {pair: p_value(p) for pair, p in zip(raw, corrected, strict=True)}
