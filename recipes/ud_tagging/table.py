r"""Write the tables of all results beside the published ones, and draw the learning curves.

    python recipes/ud_tagging/table.py WORK/results --models models.tsv --published published.tsv \
        --out table.md --figure curves.png --curves WORK/runs
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.json_values import Number, Text, Whole
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.records import ABSENT, Open, as_document, as_record, read_record
from fairseq_posattn.io.tables import read_rows
from fairseq_posattn.tagging.accuracy import GROUPS, read_curve

NONE = "–"
Results = dict[tuple[str, str], list[dict]]  # treebank and model -> a result for each seed


@dataclass(frozen=True)
class Result(Open):
    """Says what the tables take from a file of result.py."""

    treebank: Text
    model: Text
    seed: Whole
    training: Text = ABSENT
    parameters: Whole = ABSENT
    accuracy: Number = ABSENT
    oov_accuracy: Number = ABSENT
    ambiguous_accuracy: Number = ABSENT


@dataclass(frozen=True)
class Point(Open):
    """Describes one point of a learning curve."""

    updates: Whole
    accuracy: Number = ABSENT


@dataclass(frozen=True)
class Curve(Open):
    """Holds the points of a learning curve."""

    points: list[Point]


def read_results(folder: Path) -> Results:
    """Return the results in a folder by treebank and model."""
    results: Results = {}
    for path in sorted(folder.glob("*.json")):
        result = as_document(read_record(Result, path, "delete it and run table.sh again"))
        of_model = results.setdefault((result["treebank"], result["model"]), [])
        of_model.append(result)
        first, own = (found.get("training") or "" for found in (of_model[0], result))
        if own != first:
            raise InputError(
                f"{path}: the model was trained with '{own}', but seed {of_model[0]['seed']} with "
                f"'{first}', so they have no mean; delete one of them, or name another folder with "
                "--work"
            )
    if not results:
        raise InputError(f"{folder}: there are no results yet; start run.sh first")
    return results


def read_table(path: str) -> dict[str, list[str]]:
    """Return the other columns by the first one; the header stands under '#'."""
    lines = read_rows(path)
    if lines[0][0] not in ("# model", "# treebank"):
        raise InputError(f"{path}:1: the names of the columns are missing; get the table again")
    return {line[0].lstrip("# "): line[1:] for line in lines} | {"#": lines[0][1:]}


def cell(values: list[float]) -> str:
    """Return mean and standard deviation of the seeds."""
    if not values:
        return NONE
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


def of_seeds(results: Results, treebank: str, model: str, name: str) -> list[float]:
    """Return the figures of all seeds."""
    return [r[name] for r in results.get((treebank, model), []) if name in r]


def macro(results: Results, treebanks: list[str], model: str, name: str) -> str:
    """Return the mean over treebanks, and the mean of their standard deviations, as published."""
    by_treebank = [of_seeds(results, treebank, model, name) for treebank in treebanks]
    if not all(by_treebank):
        return NONE
    spreads = [stdev(values) for values in by_treebank if len(values) > 1]
    spread = f" ± {mean(spreads):.2f}" if spreads else ""
    return f"{mean(map(mean, by_treebank)):.2f}{spread}"


def macro_table(results: Results, models: dict, treebanks: list[str]) -> Iterator[str]:
    """Yield the lines of a table like Table 2c of the paper."""
    yield "| model | all | published | OOV | published | ambiguous | published | parameters |"
    yield "|---|" + "---|" * 7
    for model, (name, *published) in models.items():
        ours = [macro(results, treebanks, model, group) for group in GROUPS.values()]
        pairs = [c for pair in zip(ours, map(shown, published), strict=True) for c in pair]
        found = (r.get("parameters") for t in treebanks for r in results.get((t, model), []))
        sizes = set(filter(None, found))
        size = " to ".join(f"{n:,}" for n in sorted({min(sizes), max(sizes)})) if sizes else NONE
        yield f"| {name} | " + " | ".join([*pairs, size]) + " |"


def treebank_table(results: Results, models: dict, treebanks: list[str], published: dict):
    """Yield the lines of a table of the accuracy over all words, like Table 2d of the paper."""
    heads = [head for name, *_ in models.values() for head in (name, "published")]
    yield "| treebank | " + " | ".join(heads) + " |"
    yield "|---|" + "---|" * len(heads)
    for treebank in treebanks:
        printed = dict(zip(published["#"], published.get(treebank, []), strict=False))
        cells = []
        for model in models:
            cells += [cell(of_seeds(results, treebank, model, "accuracy"))]
            cells += [shown(printed.get(model, "-"))]
        yield f"| {treebank} | " + " | ".join(cells) + " |"


def shown(published: str) -> str:
    """Return a published figure as the tables show it."""
    return published.replace("-", NONE)


def markdown(results: Results, models: dict, published: dict) -> Iterator[str]:
    """Yield the lines of both tables."""
    treebanks = sorted({treebank for treebank, _ in results})
    models = {m: row for m, row in models.items() if any(m == found for _, found in results)}
    runs = sorted({len(runs) for runs in results.values()})
    plural = "s" if len(treebanks) > 1 else ""
    yield f"Macro mean over {len(treebanks)} treebank{plural} (the published: over 47):"
    yield ""
    yield from macro_table(results, models, treebanks)
    yield ""
    yield "Accuracy over all words:"
    yield ""
    yield from treebank_table(results, models, treebanks, published)
    yield ""
    seeds = " to ".join(str(n) for n in sorted({runs[0], runs[-1]}))
    yield f"Mean and standard deviation; seeds: {seeds}."


def mean_curve(curves: list[list[dict]]) -> tuple[list[int], list[float]]:
    """Return the mean over runs; a run that has stopped keeps its last value."""
    updates = sorted({point["updates"] for curve in curves for point in curve})
    by_run = [{point["updates"]: point["accuracy"] for point in curve} for curve in curves]
    means = []
    for k, update in enumerate(updates):
        for of_run in by_run:
            of_run.setdefault(update, of_run.get(updates[k - 1]) if k else None)
        values = [of_run[update] for of_run in by_run if of_run[update] is not None]
        means.append(mean(values))
    return updates, means


def points(path: Path) -> list[dict]:
    """Return the points of a run's curve that have an accuracy."""
    curve = as_record(Curve, {"points": read_curve(path)}, str(path), "delete it")
    return [as_document(point) for point in curve.points if point.accuracy is not ABSENT]


def draw(results: Results, models: dict, runs: Path, out: str) -> None:
    """Draw the accuracy on dev against updates, as in Figure 2 of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for model, (name, *_) in models.items():
        names = [
            f"{r['treebank']}.{model}.{r['seed']}"
            for (_, found), several in results.items()
            if found == model
            for r in several
        ]
        curves = [c for c in (points(runs / name / "curve.jsonl") for name in names) if c]
        if curves:
            axes.plot(*mean_curve(curves), label=name)
    axes.set(xlabel="batches", ylabel="accuracy on dev, %", ylim=(80, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    with replaced_whole(out) as partial:
        figure.savefig(partial, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def main() -> None:
    """Write the tables, and draw the curves if a figure is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="read the results in this folder")
    parser.add_argument("--models", required=True, help="read the rows of the table from this file")
    parser.add_argument("--published", required=True, help="read published figures from this file")
    parser.add_argument("--out", required=True, help="write the tables to this file (.md)")
    parser.add_argument("--figure", help="draw the learning curves into this PNG file")
    parser.add_argument("--curves", type=Path, help="read the curves in this folder of runs")
    args = parser.parse_args()
    results, models = read_results(args.results), read_table(args.models)
    for header in ("#", "model"):
        models.pop(header, None)
    lines = list(markdown(results, models, read_table(args.published)))
    with written_whole(args.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    if args.figure:
        draw(results, models, args.curves, args.figure)


if __name__ == "__main__":
    command_line.run(main)
