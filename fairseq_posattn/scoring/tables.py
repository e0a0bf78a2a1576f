r"""Write tables as Markdown, CSV, LaTeX, HTML, and lines of text for the terminal.

    table = Table("BLEU", ["model", "dev"], [["baseline", mean_cell([20.1, 20.5])]])
    write_tables([table], Path("table"))  # table.md, table.csv and table.tex

Cells may contain names from the data. They are escaped so that they cannot inject LaTeX commands,
Markdown markup, spreadsheet formulas or invisible characters. The macro `table_of` in
report/page/page.html, the template of posattn report, writes tables as HTML.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.terminal import visible

NONE = "–"
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}
SPECIAL |= {"±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "|": r"\textbar{}"}
FORMULA = tuple("=+-@＝＋－＠")  # first characters of formulas in spreadsheets
FIGURES = re.compile(r"\(?[-+]?[0-9.,]+(e[-+]?[0-9]+)?\)?|to|±")


@dataclass(frozen=True)
class Cell:
    """A cell of a table; a cell that is a plain text can be given as a string.

    values: the CSV cells by title (default: the text). A title that is empty or starts with a
        space is appended to the title of the column.
    system, small, mark: only in HTML: the system whose symbol precedes the text, and small print
        and a significance mark that follow it.
    span: the number of rows in HTML; the rows below lack this cell.
    """

    text: str
    values: Mapping[str, str] = field(default_factory=dict)
    is_bold: bool = False
    is_code: bool = False
    system: str = ""
    small: str = ""
    mark: str = ""
    span: int = 0

    def __str__(self) -> str:
        return self.text


def mean_cell(values: Sequence[float | None], digits: int = 2, as_range: bool = False) -> Cell:
    """Return a cell that shows the numbers of several runs as mean ± standard deviation.

    as_range: show the minimum and maximum instead of the standard deviation.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Cell(NONE)
    found = {"": mean(known)}
    if len(known) > 1 and as_range:
        found |= {" lowest": min(known), " highest": max(known)}
    elif len(known) > 1:
        found[" deviation"] = stdev(known)
    first, *more = [f"{number:,.{digits}f}" for number in found.values()]
    spread = f" ({more[0]} to {more[1]})" if len(more) > 1 else "".join(f" ± {n}" for n in more)
    return Cell(f"{first}{spread}", {key: f"{n:.{digits}f}" for key, n in found.items()})


def p_value(p: float | None, plain: bool = False) -> str:
    """Format a p-value with three decimals, or with six significant digits if `plain`."""
    if p is None:
        return NONE
    if plain:
        return f"{p:.6g}"
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


@dataclass(frozen=True)
class Table:
    """A table with an optional title. Invisible characters are escaped.

    alignment: `l` or `r` for each column (default: the first left, the others right); in HTML also
        `m` for numbers with marks and `w` for words in small print.
    parts: the indices of rows with a horizontal line directly above them in LaTeX.
    layout: the format of a line on the terminal, with one placeholder per column.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    notes: Sequence[str] = ()
    alignment: str = ""
    parts: Sequence[int] = ()
    layout: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "notes", list(map(visible, self.notes)))
        alignment = self.alignment or f"l{'r' * (len(self.head) - 1)}"
        object.__setattr__(self, "alignment", alignment)

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, in which each string is a cell."""
        return [[c if isinstance(c, Cell) else Cell(visible(c)) for c in row] for row in self.rows]


def markdown(tables: Sequence[Table]) -> Iterator[str]:
    for number, table in enumerate(tables):
        yield from [""] if number else []
        yield from (f"{table.title}:", "") if table.title else ()
        yield "| " + " | ".join(map(in_markdown, table.head)) + " |"
        yield "|" + "---|" * len(table.head)
        for row in table.cells:
            yield "| " + " | ".join(map(cell_in_markdown, row)) + " |"
        if table.notes:
            yield from ("", *table.notes)


def cell_in_markdown(cell: Cell) -> str:
    text = visible(cell.text)
    can_be_code = not {"`", "\\"} & set(text) and text == text.strip()
    if cell.is_code and can_be_code:
        text = "`{}`".format(text.replace("|", r"\|"))
    else:
        text = in_markdown(text)
    return f"**{text}**" if cell.is_bold else text


def in_markdown(text: str) -> str:
    """Escape text for a Markdown table cell."""
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", visible(text))
    return re.sub(r"\||<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


def latex(tables: Sequence[Table]) -> Iterator[str]:
    """Yield the lines of the tables in LaTeX, with the rules of the booktabs package."""
    yield r"% \usepackage{booktabs}"
    for table in tables:
        yield from [f"% {table.title}"] if table.title else []
        yield rf"\begin{{tabular}}{{{table.alignment}}}"
        yield r"\toprule"
        yield " & ".join(map(in_latex, table.head)) + r" \\"
        yield r"\midrule"
        for number, row in enumerate(table.cells):
            yield from [r"\midrule"] if number in table.parts else []
            texts = [in_latex(c.text) for c in row]
            bold = [rf"\textbf{{{t}}}" if c.is_bold else t for t, c in zip(texts, row, strict=True)]
            yield " & ".join(bold) + r" \\"
        yield r"\bottomrule"
        yield r"\end{tabular}"
        yield from (f"% {note}" for note in table.notes)


def in_latex(text: str) -> str:
    r"""Escape text for LaTeX.

    A leading [ or * is enclosed in braces, because LaTeX would read it as an argument of a
    preceding \\.
    """
    text = re.sub(r"-(?=-)", "-\0", visible(text))  # two hyphens would become a dash
    shown = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"^([\[*])", r"{\1}", shown.replace("\0", "{}"))


def rows_for_programs(tables: Sequence[Table]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file; each row starts with the title of its table, if any."""
    for table in tables:
        rows = [[cell.values or {"": cell.text} for cell in row] for row in table.cells]
        columns = [
            dict.fromkeys(key for c in cells for key in c) for cells in zip(*rows, strict=True)
        ]
        titles = ["table"] if table.title else []
        for head, keys in zip(table.head, columns, strict=True):
            titles += [f"{head}{key}" if key[:1] in ("", " ") else key for key in keys]
        yield list(map(in_csv, titles))
        for row in rows:
            cells = [table.title] if table.title else []
            cells += [c.get(k, "") for c, keys in zip(row, columns, strict=True) for k in keys]
            yield ["" if cell == NONE else in_csv(cell) for cell in cells]


def in_csv(text: str) -> str:
    """Escape a CSV cell; put an apostrophe before text that spreadsheets read as a formula."""
    text = visible(text)
    is_formula = text.startswith(FORMULA) and not all(map(FIGURES.fullmatch, text.split()))
    return f"'{text}" if is_formula else text


def write_tables(tables: Sequence[Table], start: Path) -> list[str]:
    """Write START.md, START.csv and START.tex, and return the lines of START.md."""
    text = list(markdown(tables))
    for end, lines in (("md", text), ("tex", list(latex(tables)))):
        with written_whole(f"{start}.{end}") as file:
            file.writelines(f"{line}\n" for line in lines)
    with written_whole(f"{start}.csv") as file:
        csv.writer(file, lineterminator="\n").writerows(rows_for_programs(tables))
    return text


def terminal(tables: Sequence[Table]) -> Iterator[str]:
    """Yield the lines of the tables for the terminal, in the layout of each table."""
    for number, table in enumerate(tables):
        yield from [""] if number else []
        yield from [table.title] if table.title else []
        yield from (
            [table.layout.format(*map(visible, table.head)).rstrip()] if any(table.head) else []
        )
        for row in table.cells:
            yield table.layout.format(*(visible(cell.text) for cell in row)).rstrip()
        yield from table.notes
