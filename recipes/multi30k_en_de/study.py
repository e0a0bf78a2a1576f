"""Print the table of the study and draw its figure, from the translations in the folder `study`.

    python recipes/multi30k_en_de/study.py test_2016_flickr.de

The references are those of the corpus. The p values are those of Welch's t test of BLEU over the
runs, after Holm over all tests of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from sacrebleu.metrics import BLEU, CHRF, TER

from fairseq_posattn.evaluation.cells import holm
from fairseq_posattn.evaluation.metrics.runs import (
    Statistics,
    compared_runs,
    scores,
    statistics_of,
)
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines

HERE = Path(__file__).parent
NAMES = {
    "sequence": "`sequence`",
    "relative": "`relative`",
    "structural_flat": "`structural`, flat",
    "structural_random": "`structural`, random",
    "structural_shuffled": "`structural`, shuffled",
    "structural_chain": "`structural`, chain",
    "structural": "`structural`, parsed",
}
BASELINES = ("sequence", "structural_chain")


def translations() -> dict[str, list[list[str]]]:
    """Return the translations of each model, one for each seed."""
    found = {}
    for name in NAMES:
        paths = sorted((HERE / "study").glob(f"{name}.demo.seed*.de.xz"))
        if paths:
            found[name] = [list(read_lines(path)) for path in paths]
    return found


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation as text."""
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def rows(outputs: dict[str, list[list[str]]], reference: list[str]) -> list[list[str]]:
    """Return the rows of the table."""
    metrics = [BLEU(references=[reference]), CHRF(references=[reference])]
    metrics.append(TER(references=[reference]))
    counted = [{n: statistics_of(m, runs) for n, runs in outputs.items()} for m in metrics]
    pairs = [(base, name) for base in BASELINES for name in outputs if base != name]
    tests = {
        (base, name): compared_runs(metrics[0], counted[0][base], counted[0][name], 1000, 1, 12345)
        for base, name in pairs
        if name != BASELINES[0]  # the two baselines are compared once
    }
    corrected = dict(zip(tests, holm([t.new_runs or 1 for t in tests.values()]), strict=True))
    found = []
    for name in outputs:
        runs = [scores(metric, of[name]) for metric, of in zip(metrics, counted, strict=True)]
        row = [NAMES[name], ", ".join(f"{score:.2f}" for score in runs[0]), *map(spread, runs)]
        for base in BASELINES:
            test = tests.get((base, name))
            low, high = test.interval if test else (0, 0)
            row.append(
                f"{test.difference:+.2f} ({low:.2f} to {high:.2f}), p = {corrected[base, name]:.2g}"
                if test
                else ""
            )
        found.append(row)
    return found


def draw(counted: dict[str, list[float]], path: Path) -> None:
    """Draw BLEU of each run, a row for each model, and the mean as a line."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure((6.4, 0.6 + 0.36 * len(counted)), layout="constrained")
    axes = figure.add_subplot()
    for row, (name, values) in enumerate(counted.items()):
        colour = "#0072b2" if name.startswith("structural") else "#6b7280"
        axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.6, markersize=5)
        axes.vlines(mean(values), row - 0.28, row + 0.28, colors=colour, linewidth=2)
    axes.set_yticks(range(len(counted)), [NAMES[name].replace("`", "") for name in counted])
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#d9dde3")
    axes.set_axisbelow(True)
    axes.set_xlabel("BLEU of each training; the bar is the mean")
    figure.savefig(path, dpi=160, metadata={"Software": None})


def main() -> None:
    """Print the table, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", help="read the references from this file, plain or compressed")
    options = parser.parse_args()
    reference, outputs = list(read_lines(options.reference)), translations()
    head = ["Model", "BLEU of the seeds", "BLEU", "chrF2", "TER"]
    head += ["Against `sequence`", "Against the chain"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows(outputs, reference):
        print("| " + " | ".join(row) + " |")
    bleu = BLEU(references=[reference])
    counted: dict[str, Statistics] = {n: statistics_of(bleu, runs) for n, runs in outputs.items()}
    draw({name: scores(bleu, of) for name, of in counted.items()}, HERE / "study.png")


if __name__ == "__main__":
    command_line.run(main)
