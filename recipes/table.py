"""The table of a recipe, beside the published one.

    python recipes/table.py recipes/wmt14_en_de/models.tsv --results WORK/results --out table.md

models.tsv: model, size, published BLEU of each test set (-: none), paper. A result is the JSON of
posattn-score, MODEL.SIZE.TEST.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn import command_line
from fairseq_posattn.files import InputError, read_lines, written_whole

NONE = "–"


class Row(NamedTuple):
    model: str
    size: str
    published: dict[str, str]
    paper: str


def rows(table: str) -> Iterator[Row]:
    header, *lines = read_lines(table)
    _, _, *tests, _ = header.lstrip("# ").split("\t")
    for number, line in enumerate(lines, start=2):
        columns = line.split("\t")
        if len(columns) != len(tests) + 3:
            raise InputError(
                f"{table}:{number}: {len(columns)} columns, {len(tests) + 3} are expected"
            )
        model, size, *published, paper = columns
        yield Row(model, size, dict(zip(tests, published, strict=True)), paper)


def result(folder: Path, row: Row, test: str) -> dict | None:
    path = folder / f"{row.model}.{row.size}.{test}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def score(found: dict | None) -> str:
    """The one to compare: of several references NIST's, else sacrebleu's."""
    if found is None:
        return NONE
    metric = "NIST BLEU" if "NIST BLEU" in found["scores"] else "BLEU"
    compared = found.get("baseline", {}).get("scores", {}).get(metric, {})
    return f"{found['scores'][metric]['score']:.2f}{compared.get('mark', '')}"


def tokenised(found: dict | None) -> str:
    scores = found["scores"] if found else {}
    return f"{scores['tokenised BLEU']['score']:.2f}" if "tokenised BLEU" in scores else NONE


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


def trained(found: dict[str, dict | None]) -> list[str]:
    training = next((f["training"] for f in found.values() if f and "training" in f), {})
    speed = training.get("words_per_second")
    return [million(training.get("parameters")), f"{speed:,.0f}" if speed else NONE]


def signatures(table: list[Row], folder: Path) -> Iterator[str]:
    """Below the table, once each."""
    seen: dict[str, None] = {}
    for row in table:
        for test in row.published:
            scores = (result(folder, row, test) or {"scores": {}})["scores"]
            for metric in ("NIST BLEU", "BLEU", "tokenised BLEU"):
                if metric in scores:
                    seen[f"{metric}: `{scores[metric]['signature']}`"] = None
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
    lines = list(markdown(list(rows(options.models)), options.results))
    with written_whole(options.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    command_line.run(main)
