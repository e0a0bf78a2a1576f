"""Print the tables of the study and draw its figure, from the translations in the folder `study`.

    python recipes/multi30k_en_de/study.py test_2016_flickr.de

The references are those of the corpus. The p values are those of Welch's t test of BLEU over the
runs, after Holm over all tests of a table; models with a single run have none.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import mean, stdev

from sacrebleu.metrics import BLEU, CHRF, TER

from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.records import known
from fairseq_posattn.lab.scoring.metrics.comparison import compared_runs
from fairseq_posattn.lab.scoring.metrics.runs import Counted, Samples, counted_by, run_scores
from fairseq_posattn.lab.scoring.statistics import holm

HERE = Path(__file__).parent
TREES = {
    "sequence": "`sequence`",
    "relative": "`relative`",
    "structural_flat": "`structural`, flat",
    "structural_random": "`structural`, random",
    "structural_shuffled": "`structural`, shuffled",
    "structural_chain": "`structural`, chain",
    "structural": "`structural`, parsed",
}
OTHERS = {
    "sequence": "`sequence`",
    "alibi": "`alibi`, positions `none`",
    "t5_bias": "`t5_bias`, positions `none`",
    "rope": "`rope`, positions `none`",
    "disentangled": "`disentangled(max=64)`, positions `none`",
    "tree_window": "`tree_window`",
    "tree_distance": "`tree_distance`",
    "tree_gaussian": "`tree_distance(kind=gaussian)`",
    "tree_depth_relative": "`tree_depth_relative`",
    "deps_san": "`deps_san`",
    "tree_labels": "`tree_labels`",
    "tree_gcn": "`tree_gcn@0`",
    "label_embeddings": "`relation_embedding + tag_embedding`",
    "tree_supervised": "`tree_supervised@1`",
}
BEST = {
    "sequence": "`sequence`",
    "tree_depth_relative_chain": "`tree_depth_relative`, chain",
    "tree_depth_relative": "`tree_depth_relative`, parsed",
}
NAMES = {**TREES, **OTHERS, **BEST}
TABLES = {  # the models of each table -> what they are compared with, and what the columns say
    "trees": (TREES, {"sequence": "Against `sequence`", "structural_chain": "Against the chain"}),
    "others": (OTHERS, {"sequence": "Against `sequence`"}),
    "best": (
        BEST,
        {"sequence": "Against `sequence`", "tree_depth_relative_chain": "Against the chain"},
    ),
}
READS_TREES = [n for n in NAMES if n.startswith(("structural", "tree", "deps", "label"))]
Outputs = dict[str, list[list[str]]]  # name of a model -> the translations of each seed


def translations() -> Outputs:
    """Return the translations of each model, one for each seed."""
    found = {}
    for name in NAMES:
        paths = sorted((HERE / "study").glob(f"{name}.demo.seed*.de.xz"))
        if paths:
            found[name] = [list(read_lines(path)) for path in paths]
    return found


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation as text, or the value of a single run."""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def rows(
    outputs: Outputs, labels: dict[str, str], baselines: Collection[str], reference: list[str]
) -> list[list[str]]:
    """Return the rows of a table."""
    metrics = [BLEU(references=[reference]), CHRF(references=[reference])]
    metrics.append(TER(references=[reference]))
    counted = [{n: counted_by(m, runs) for n, runs in outputs.items()} for m in metrics]
    tests = {
        (base, name): compared_runs(
            metrics[0], counted[0][base], counted[0][name], Samples(1000, 1)
        )
        for base in baselines
        for name in outputs
        if base in outputs and base != name and name != "sequence"  # baselines are compared once
    }
    tested = {pair: p for pair, test in tests.items() if (p := known(test.welch_p)) is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    found = []
    for name in outputs:
        runs = [run_scores(metric, of[name]) for metric, of in zip(metrics, counted, strict=True)]
        row = [labels[name], ", ".join(f"{score:.2f}" for score in runs[0]), *map(spread, runs)]
        for base in baselines:
            test, p = tests.get((base, name)), corrected.get((base, name))
            low, high = test.interval if test else (0, 0)
            shown = f"{test.difference:+.2f} ({low:.2f} to {high:.2f})" if test else ""
            row.append(shown if p is None else f"{shown}, p = {p:.2g}")
        found.append(row)
    return found


def print_table(
    outputs: Outputs, labels: dict[str, str], baselines: dict[str, str], reference: list[str]
) -> None:
    """Print a table as Markdown."""
    head = ["Model", "BLEU of the seeds", "BLEU", "chrF2", "TER", *baselines.values()]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows(outputs, labels, baselines, reference):
        print("| " + " | ".join(row) + " |")


def draw(counted: dict[str, list[float]], path: Path) -> None:
    """Draw BLEU of each run, a row for each model, and the mean of several as a line."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure((6.4, 0.6 + 0.36 * len(counted)), layout="constrained")
    axes = figure.add_subplot()
    for row, (name, values) in enumerate(counted.items()):
        colour = "#0072b2" if name in READS_TREES else "#6b7280"
        axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.6, markersize=5)
        if len(values) > 1:
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
    """Print the tables, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", help="read the references from this file, plain or compressed")
    options = parser.parse_args()
    reference, outputs = list(read_lines(options.reference)), translations()
    for names, baselines in TABLES.values():
        there = {name: outputs[name] for name in names if name in outputs}
        if len(there) > 1:
            print_table(there, names, baselines, reference)
            print()
    bleu = BLEU(references=[reference])
    counted: dict[str, Counted] = {n: counted_by(bleu, runs) for n, runs in outputs.items()}
    draw({name: run_scores(bleu, of) for name, of in counted.items()}, HERE / "study.png")


if __name__ == "__main__":
    command_line.run(main)
