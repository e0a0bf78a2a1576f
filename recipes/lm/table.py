"""Print perplexities beside the published ones, as Markdown.

    python recipes/lm/table.py --results WORK/results [--corpus ptb] [--out table.md]

A result is the file CORPUS.MODEL.json that perplexity.py wrote. published.tsv holds the tables of
the paper, whose numbers of parameters are those of PTB in both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.evaluation.json_values import Number, Whole
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.records import ABSENT, Open, read_record
from fairseq_posattn.io.tables import read_rows

NONE = "–"
SPLITS = ("valid", "test")
PUBLISHED = Path(__file__).with_name("published.tsv")


@dataclass(frozen=True)
class Figures(Open):
    """Holds the perplexities of a split."""

    per_word: Number = ABSENT
    as_published: Number = ABSENT


@dataclass(frozen=True)
class Result(Open):
    """Says what the table takes from a file of perplexity.py."""

    parameters: Whole
    valid: Figures = field(default_factory=Figures)
    test: Figures = field(default_factory=Figures)


class Row(NamedTuple):
    """Describes a row of the published tables."""

    corpus: str
    model: str
    parameters: str
    valid: str
    test: str


def published() -> list[Row]:
    """Return the rows of the published tables."""
    rows = [Row(*columns) for columns in read_rows(PUBLISHED, columns=len(Row._fields))]
    return [row for row in rows if not row.corpus.startswith("#")]


def result(folder: Path, row: Row) -> Result | None:
    """Return the result of a model, or None if there is none yet."""
    path = folder / f"{row.corpus}.{row.model}.json"
    if not path.exists():
        return None
    return read_record(Result, path, "delete it and start recipes/lm/run.sh again")


def cells(row: Row, found: Result | None) -> list[str]:
    """Return the cells of a row: our figures beside the published ones."""
    parameters = f"{found.parameters:,}" if found else NONE
    line = [row.corpus, row.model, f"{parameters} ({row.parameters})"]
    for split in SPLITS:
        figures = getattr(found, split) if found else Figures()
        for value in (figures.per_word, figures.as_published):
            line.append(NONE if value is ABSENT else f"{value:.2f}")
        line.append(getattr(row, split))
    return line


def markdown(folder: Path, corpus: str | None) -> Iterator[str]:
    """Yield the lines of the table, or those of one corpus."""
    heads = ["corpus", "model", "parameters (published)"]
    for split in SPLITS:
        heads += [f"{split}, per word", "as published", "published"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in published():
        if corpus in (None, row.corpus):
            yield "| " + " | ".join(cells(row, result(folder, row))) + " |"


def main() -> None:
    """Print the table, and write it if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--results", type=Path, required=True, help="read the results in this folder"
    )
    parser.add_argument("--corpus", help="print only the rows of this corpus")
    parser.add_argument("--out", type=Path, help="write the table to this file, too")
    arguments = parser.parse_args()
    table = "\n".join(markdown(arguments.results, arguments.corpus))
    print(table)
    if arguments.out:
        with written_whole(arguments.out) as file:
            file.write(table + "\n")


if __name__ == "__main__":
    command_line.run(main)
