"""Write the table and the figure of a sweep over the values of an option."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.lab.report.systems import read_system
from fairseq_posattn.lab.scoring.cells import in_markdown

Points = Mapping[tuple[str, int], float]  # label of the series and value -> BLEU


def bleu_of(path: Path) -> float:
    """Return BLEU in a file of posattn-score."""
    scores = read_system(path).scores
    if "BLEU" not in scores:
        raise InputError(f"{path}: the file has no BLEU; delete it and start sweep.sh again")
    return float(scores["BLEU"].score)


def write(points: Points, base: float, start: Path) -> str:
    """Write START.md and START.png, and return the first."""
    text = markdown(points, base)
    draw(points, base, Path(f"{start}.png"))
    with written_whole(f"{start}.md") as file:
        file.write(text)
    return text


def markdown(points: Points, base: float) -> str:
    """Return the table of the sweep."""
    rows = [
        f"| {in_markdown(label)} | {value} | {bleu:.2f} |"
        for (label, value), bleu in points.items()
    ]
    head = ["| series | value | BLEU |", "|---|---|---|", f"| without | – | {base:.2f} |"]
    return "\n".join([*head, *rows]) + "\n"


def draw(points: Points, base: float, out: Path) -> None:
    """Draw BLEU against the values of each series."""
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(label for label, _ in points))
    figure = Figure(figsize=(4.5 * len(labels), 3.4), layout="constrained")
    sides = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for side, label in zip(sides, labels, strict=True):
        of_label = [(value, bleu) for (series, value), bleu in points.items() if series == label]
        side.axhline(base, color="0.5", linestyle="--", label="without")
        side.plot(*zip(*of_label, strict=True), marker="o")
        side.set_xticks([value for value, _ in of_label])
        side.set_xlabel(label)
        side.grid(axis="y", color="0.9")
    sides[0].set_ylabel("BLEU")
    sides[0].legend(frameon=False)
    with replaced_whole(out) as partial:
        figure.savefig(partial, format="png", dpi=150)
