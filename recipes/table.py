"""The table of a recipe, beside the published one.

    python recipes/table.py recipes/wmt14_en_de/models.tsv --results WORK/results --out table.md

models.tsv: model, size, published BLEU of each test set (-: none), paper. A result is the JSON of
posattn-score, MODEL.SIZE.TEST.json.
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
    mark: Text = ""


@dataclass(frozen=True)
class Baseline(Open):
    scores: dict[str, Compared] = field(default_factory=dict)


@dataclass(frozen=True)
class Result(Open):
    """What the table takes from the JSON of posattn-score."""

    scores: dict[str, Score]
    baseline: Baseline = field(default_factory=Baseline)
    training: Training = ABSENT


class Row(NamedTuple):
    model: str
    size: str
    published: dict[str, str]
    paper: str


def rows(table: str) -> list[Row]:
    """The rows below the header, whose names are parts of names of files."""
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
    path = folder / f"{row.model}.{row.size}.{test}.json"
    if not path.exists():
        return None
    found = read_record(Result, path, AGAIN)
    if not {"BLEU", "NIST BLEU"} & set(found.scores):
        raise InputError(f"{path}: has no BLEU; {AGAIN}")
    return found


def score(found: Result | None) -> str:
    """The one to compare: of several references NIST's, else sacrebleu's."""
    if found is None:
        return NONE
    metric = "NIST BLEU" if "NIST BLEU" in found.scores else "BLEU"
    compared = found.baseline.scores.get(metric, Compared())
    return f"{found.scores[metric].score:.2f}{compared.mark}"


def tokenised(found: Result | None) -> str:
    scores = found.scores if found else {}
    return f"{scores['tokenised BLEU'].score:.2f}" if "tokenised BLEU" in scores else NONE


def million(parameters: float | None) -> str:
    return f"{parameters / 1e6:.1f}" if parameters else NONE


def markdown(table: list[Row], folder: Path) -> Iterator[str]:
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
    told = (f.training for f in found.values() if f and f.training is not ABSENT)
    training = next(told, Training())
    speed = training.words_per_second
    return [million(training.parameters), f"{speed:,.0f}" if speed else NONE]


def signatures(table: list[Row], folder: Path) -> Iterator[str]:
    """Below the table, once each."""
    seen: dict[str, None] = {}
    for row in table:
        for test in row.published:
            scores = (result(folder, row, test) or Result({})).scores
            for metric in ("NIST BLEU", "BLEU", "tokenised BLEU"):
                if metric in scores:
                    seen[f"{metric}: `{scores[metric].signature}`"] = None
    if seen:
        yield ""
        yield "; ".join(seen) + "; ↑ ⇑: better than the first row of the size, p < 0.05, 0.01"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    lines = list(markdown(rows(options.models), options.results))
    with written_whole(options.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    command_line.run(main)
