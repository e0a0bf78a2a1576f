"""Measure the accuracy of the models of the lookup recipe.

    python recipes/lookup/evaluate.py WORK [WORK ...] --out RESULTS

The columns of the tables say what is new in a line, or how long it is. For several runs (run.sh
with other seeds, each with its own folder) the table has the mean, the lowest and the highest
figure. RESULTS gets lookup.json, lookup.md and, where matplotlib is there, lookup.png.

A word is right if it stands in the same place of the reference; words that a short output lacks are
wrong. A sequence is right if it equals the reference. The first word of each reference is a copy of
the source's, and one of eight strings is right by chance.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.fairseq_logs import generate_log as texts
from fairseq_posattn.evaluation.fairseq_logs.training_log import PARAMETERS
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.files import read_lines, same_number_of_lines
from fairseq_posattn.io.tables import read_rows

MODELS = Path(__file__).with_name("models.tsv")
LONGER = "longer"
KINDS = ("held-out inputs", "held-out compositions", "held-out tables", LONGER)  # see tables.py
MEASURES = ("sequences", "words")

Accuracies = dict[str, dict[str, float]]  # column -> measure -> share


def columns(raw: Path) -> list[str]:
    """Return the column in which each line of the test set counts: its kind, or its number of
    tables."""
    sources, kinds = read_lines(raw / "test.src"), read_lines(raw / "test.kinds")
    found = []
    for number, (source, kind) in enumerate(zip(sources, kinds, strict=True), start=1):
        if kind not in KINDS or not source.split():
            raise InputError(
                f"{raw}/test.kinds:{number}: this recipe has no kind {kind[:40]!a} for the line "
                f"{source[:40]!a} of test.src; delete the folder and start "
                "recipes/lookup/run.sh again"
            )
        found.append(f"{len(source.split()) - 1} tables" if kind == LONGER else kind)
    return found


def outputs(log: Path, count: int) -> list[str]:
    """Return what was decoded, in the order of the test set."""
    remedy = "delete it and start recipes/lookup/run.sh again"
    if not log.exists():
        raise InputError(f"{log}: there is no such log; run recipes/lookup/run.sh to its end first")
    found = texts.outputs([str(log)])
    if len(found) != count:
        raise InputError(f"{log}: there are {len(found)} of {count} outputs; {remedy}")
    return found


def accuracies(columns: list[str], gold: list[str], decoded: list[str]) -> Accuracies:
    """Return the shares of sequences and of words that are right, in each column."""
    sequences, right, words = defaultdict(list), defaultdict(int), defaultdict(int)
    for column, target, output in zip(columns, gold, decoded, strict=True):
        sequences[column].append(target == output)
        right[column] += words_right(target.split(), output.split())
        words[column] += len(target.split())
    return {
        column: {"sequences": mean(found), "words": right[column] / max(words[column], 1)}
        for column, found in sequences.items()
    }


def words_right(target: list[str], output: list[str]) -> int:
    """Return how many words stand in the right place."""
    return sum(one == other for one, other in zip(target, output, strict=False))


def evaluate(work: Path) -> dict[str, dict]:
    """Return for each model its size and its accuracies."""
    if not (work / "raw/test.kinds").exists():
        raise InputError(
            f"{work}: this is no folder of the recipe; make one with recipes/lookup/run.sh"
        )
    same_number_of_lines([work / "raw" / f"test.{end}" for end in ("src", "tgt", "kinds")])
    gold, found = list(read_lines(work / "raw/test.tgt")), {}
    for name, architecture in read_rows(MODELS, columns=2):
        decoded = outputs(work / name / "generate.log", len(gold))
        found[name] = {
            "architecture": architecture,
            "parameters": parameters(work / name / "train.log"),
            "accuracy": accuracies(columns(work / "raw"), gold, decoded),
        }
    return found


def parameters(log: Path) -> int:
    """Return the number of parameters that the log names."""
    counted = next(filter(None, map(PARAMETERS.search, read_lines(log))), None)
    if counted is None:
        raise InputError(
            f"{log}: the log does not say how large the model is; delete it and train again"
        )
    return int(counted[1].replace(",", ""))


def shares(runs: list[dict], model: str, column: str, measure: str) -> list[float]:
    """Return the accuracies in percent, one for each run."""
    return [100 * run[model]["accuracy"][column][measure] for run in runs]


def cell(found: list[float]) -> str:
    """Return the mean of the runs, with the lowest and the highest one."""
    if len(found) == 1:
        return f"{found[0]:.1f}"
    return f"{mean(found):.1f} ({min(found):.0f}–{max(found):.0f})"


def markdown(runs: list[dict]) -> Iterator[str]:
    """Yield the lines of a table for sequences and one for words."""
    for measure in MEASURES:
        heads = list(next(iter(runs[0].values()))["accuracy"])
        yield f"Accuracy in % by {measure.removesuffix('s')}{of_runs(len(runs))}:"
        yield ""
        yield "| model | parameters | " + " | ".join(heads) + " |"
        yield "|---|" + "---:|" * (len(heads) + 1)
        for model, described in runs[0].items():
            cells = [cell(shares(runs, model, column, measure)) for column in heads]
            yield f"| `{described['architecture']}` | {described['parameters']:,} | " + (
                " | ".join(cells) + " |"
            )
        yield ""


def of_runs(count: int) -> str:
    """Return what the heading says about several runs."""
    return "" if count == 1 else f", mean (lowest–highest) of {count} runs"


def draw(runs: list[dict], path: Path) -> None:
    """Draw the accuracy against the number of tables; at 2 stand the held-out compositions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for panel, measure in zip(panels, MEASURES, strict=True):
        for model, described in runs[0].items():
            lengths, found = by_length(runs, model, measure)
            middle = [mean(numbers) for numbers in found]
            (line,) = panel.plot(lengths, middle, marker="o", label=described["architecture"])
            low, high = [min(n) for n in found], [max(n) for n in found]
            panel.fill_between(lengths, low, high, color=line.get_color(), alpha=0.15)
        panel.axvline(2.5, color="grey", linestyle=":")
        panel.set(xlabel="tables (trained on: 1 and 2)", ylabel=f"right {measure}, %")
        panel.set_ylim(-3, 103)
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    with replaced_whole(path) as partial:
        figure.savefig(partial, format="png", dpi=110)
    pyplot.close(figure)


def by_length(runs: list[dict], model: str, measure: str) -> tuple[list[int], list[list[float]]]:
    """Return the numbers of tables, and the accuracies of all runs at each."""
    named = {column: 2 for column in runs[0][model]["accuracy"] if column == KINDS[1]}
    for column in runs[0][model]["accuracy"]:
        if column.endswith(" tables") and column[0].isdigit():
            named[column] = int(column.split()[0])
    return list(named.values()), [shares(runs, model, column, measure) for column in named]


def main() -> None:
    """Write the table and the figure of the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "work", type=Path, nargs="+", help="evaluate the models in these folders of run.sh"
    )
    parser.add_argument("--out", type=Path, required=True, help="write the results to this folder")
    args = parser.parse_args()
    runs = [evaluate(work) for work in args.work]
    if len({json.dumps([list(m["accuracy"]) for m in run.values()]) for run in runs}) > 1:
        raise InputError("the runs have different test sets; name runs with the same options")
    table = "\n".join(markdown(runs))
    with written_whole(args.out / "lookup.json") as file:
        json.dump({"runs": runs}, file, indent=2)
        file.write("\n")
    with written_whole(args.out / "lookup.md") as file:
        file.write(table)
    print(table)
    try:
        draw(runs, args.out / "lookup.png")
    except ImportError:
        print("there is no figure: it needs matplotlib (pip install 'fairseq_posattn[plot]')")
        return
    print(f"figure: {args.out / 'lookup.png'}")


if __name__ == "__main__":
    command_line.run(main)
