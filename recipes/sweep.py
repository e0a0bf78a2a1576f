"""Write the table and the plot of a sweep over windows.

    python recipes/sweep.py --results WORK/results --test newstest2013 --size base --out WORK/sweep

The program reads window_SIZE.json and window_11_across_HEADS.json, which posattn-score wrote, and
writes OUT.md and OUT.png.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.score_record import Score
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.records import Open, read_record

WINDOW = re.compile(r"window_([0-9]{1,4})(?:_across_([0-9]{1,4}))?\.")
PUBLISHED_WINDOW = 11
AGAIN = "delete it and start sweep.sh again"


@dataclass(frozen=True)
class Result(Open):
    """Says what the sweep takes from the JSON of posattn-score."""

    scores: dict[str, Score]


def scores(folder: Path, size: str, test: str) -> dict[tuple[int, int], float]:
    """Return BLEU of each window size and number of heads."""
    found = {}
    for path in folder.glob(f"window_*.{size}.{test}.json"):
        if match := WINDOW.match(path.name):
            found[int(match[1]), int(match[2] or 1)] = bleu_of(path)
    if not found:
        raise InputError(f"{folder}: there is no window_*.{size}.{test}.json; start sweep.sh first")
    return dict(sorted(found.items()))


def baseline(folder: Path, size: str, test: str) -> float:
    """Return BLEU of the model without a window."""
    return bleu_of(folder / f"sequence.{size}.{test}.json")


def bleu_of(path: Path) -> float:
    """Return BLEU in a file of posattn-score."""
    scores = read_record(Result, path, AGAIN).scores
    if "BLEU" not in scores:
        raise InputError(f"{path}: the file has no BLEU; {AGAIN}")
    return scores["BLEU"].score


def markdown(found: dict[tuple[int, int], float], base: float) -> str:
    """Return the table of the sweep."""
    rows = [f"| {size} | {heads} | {bleu:.2f} |" for (size, heads), bleu in found.items()]
    head = ["| window | heads | BLEU |", "|---|---|---|", f"| all | 1 | {base:.2f} |"]
    return "\n".join([*head, *rows]) + "\n"


def draw(found: dict[tuple[int, int], float], base: float, out: Path) -> None:
    """Draw BLEU against the size of the window and the number of heads."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    one_head = [(size, bleu) for (size, heads), bleu in found.items() if heads == 1]
    across = [(heads, bleu) for (size, heads), bleu in found.items() if size == PUBLISHED_WINDOW]
    for side, points, label in zip(
        sides, (one_head, across), ("window size, one head", "heads, window of 11"), strict=True
    ):
        side.axhline(base, color="0.5", linestyle="--", label="without a window")
        side.plot(*zip(*points, strict=True), marker="o")
        side.set_xticks([x for x, _ in points])
        side.set_xlabel(label)
        side.grid(axis="y", color="0.9")
    sides[0].set_ylabel("BLEU")
    sides[0].legend(frameon=False)
    with replaced_whole(out) as partial:
        figure.savefig(partial, format="png", dpi=150)


def main() -> None:
    """Write the table and the plot of the sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="read the scores in this folder"
    )
    parser.add_argument("--test", required=True, help="take the scores of this test set")
    parser.add_argument("--size", required=True, help="take the models of this size")
    parser.add_argument("--out", required=True, help="write OUT.md and OUT.png")
    options = parser.parse_args()
    found = scores(options.results, options.size, options.test)
    base = baseline(options.results, options.size, options.test)
    draw(found, base, Path(f"{options.out}.png"))
    with written_whole(f"{options.out}.md") as file:
        file.write(markdown(found, base))
    print(markdown(found, base), end="")


if __name__ == "__main__":
    command_line.run(main)
