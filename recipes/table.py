"""Write the table of a recipe beside the published figures.

    python recipes/table.py recipes/wmt14_en_de/models.tsv --results WORK/results --out table.md

A row of models.tsv has a model, its size, the published BLEU of each test set (-: none) and the
paper. A result is the JSON of posattn-score, MODEL.SIZE.TEST.json.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.json_values import Text
from fairseq_posattn.evaluation.score_record import Score, Training
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.records import ABSENT, Open, read_record
from fairseq_posattn.io.tables import read_rows

NONE = "–"
AGAIN = "delete it and evaluate this model again"
NAME = re.compile(r"[\w][\w.-]{0,99}")


@dataclass(frozen=True)
class Compared(Open):
    """Says whether a score differs significantly from that of the baseline."""

    mark: Text = ""


@dataclass(frozen=True)
class Baseline(Open):
    """Says how the scores compare with a baseline."""

    scores: dict[str, Compared] = field(default_factory=dict)


@dataclass(frozen=True)
class Result(Open):
    """Says what the table takes from the JSON of posattn-score."""

    scores: dict[str, Score]
    baseline: Baseline = field(default_factory=Baseline)
    training: Training = ABSENT


class Row(NamedTuple):
    """Describes a row of the table with its published figures."""

    model: str
    size: str
    published: dict[str, str]
    paper: str


def rows(table: str) -> list[Row]:
    """Return the rows below the header, whose names become parts of file names."""
    header, *lines = read_rows(table)
    tests = header[2:-1]
    if not tests or not lines or not all(map(NAME.fullmatch, tests)):
        raise InputError(
            f"{table}:1: expected '# model, size, TEST ..., paper' and rows below it; get it again"
        )
    for number, columns in enumerate(lines, start=2):
        if not all(map(NAME.fullmatch, columns[:2])):
            raise InputError(
                f"{table}:{number}: expected a model and a size, found "
                f"{columns[0][:40]!a} and {columns[1][:40]!a}"
            )
    return [
        Row(model, size, dict(zip(tests, published, strict=True)), paper)
        for model, size, *published, paper in lines
    ]


def result(folder: Path, row: Row, test: str) -> Result | None:
    """Return the result of a model on a test set, or None if there is none yet."""
    path = folder / f"{row.model}.{row.size}.{test}.json"
    if not path.exists():
        return None
    found = read_record(Result, path, AGAIN)
    if not {"BLEU", "NIST BLEU"} & set(found.scores):
        raise InputError(f"{path}: the file has no BLEU; {AGAIN}")
    return found


def score(found: Result | None) -> str:
    """Return the score to compare with: NIST's of several references, else sacrebleu's."""
    if found is None:
        return NONE
    metric = "NIST BLEU" if "NIST BLEU" in found.scores else "BLEU"
    compared = found.baseline.scores.get(metric, Compared())
    return f"{found.scores[metric].score:.2f}{compared.mark}"


def tokenised(found: Result | None) -> str:
    """Return the tokenised BLEU as text."""
    scores = found.scores if found else {}
    return f"{scores['tokenised BLEU'].score:.2f}" if "tokenised BLEU" in scores else NONE


def million(parameters: float | None) -> str:
    """Return a number of parameters in millions as text."""
    return f"{parameters / 1e6:.1f}" if parameters else NONE


def markdown(table: list[Row], folder: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    tests = list(table[0].published)
    heads = ["model", "size"]
    for test in tests:
        heads += [f"{test} BLEU", "tokenised", "published"]
    heads += ["parameters, M", "training words/s", "paper"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in table:
        found = {test: result(folder, row, test) for test in tests}
        cells = [f"`{row.model}`", row.size]
        for test in tests:
            published = row.published[test].replace("-", NONE)
            cells += [score(found[test]), tokenised(found[test]), published]
        yield "| " + " | ".join([*cells, *trained(found), row.paper]) + " |"
    yield from signatures(table, folder)


def trained(found: dict[str, Result | None]) -> list[str]:
    """Return the size and the speed of a training, from any of its results."""
    told = (f.training for f in found.values() if f and f.training is not ABSENT)
    training = next(told, Training())
    speed = training.words_per_second
    return [million(training.parameters), f"{speed:,.0f}" if speed else NONE]


def signatures(table: list[Row], folder: Path) -> Iterator[str]:
    """Yield the signatures of the scores, each once, below the table."""
    seen: dict[str, None] = {}
    for row in table:
        for test in row.published:
            scores = (result(folder, row, test) or Result({})).scores
            for metric in ("NIST BLEU", "BLEU", "tokenised BLEU"):
                if metric in scores:
                    seen[f"{metric}: `{scores[metric].signature}`"] = None
    if seen:
        yield ""
        yield "; ".join(seen) + (
            "; ↑ and ⇑ mean better than the first row of the size at p < 0.05 and p < 0.01"
        )


def main() -> None:
    """Write the table of the recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", help="read the rows and the published figures from this file")
    parser.add_argument(
        "--results", type=Path, required=True, help="read the scores in this folder"
    )
    parser.add_argument("--out", required=True, help="write the table to this file (.md)")
    options = parser.parse_args()
    lines = list(markdown(rows(options.models), options.results))
    with written_whole(options.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    command_line.run(main)
