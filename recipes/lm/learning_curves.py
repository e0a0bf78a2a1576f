"""Plot the training and validation loss of several models against their updates.

    python recipes/lm/learning_curves.py positional=LOG attentive=LOG lstm=LOG --plot FILE.png

LOG is what fairseq-train printed, or the train.log of a run of the recipe.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.lab.scoring.training_log import INSIDE, read_training

LARGEST = 1000  # the largest loss in bits whose perplexity fits a float of Python
Curve = list[tuple[int, float]]  # update, loss in bits of each word


def read_curves(log: Path) -> dict[str, Curve]:
    """Return the training and validation curve in a log."""
    found = read_training([str(log)])
    losses = {"train": found.losses.get(INSIDE, {}), "valid": found.validated}
    curves = {
        name: [(update, math.nan if loss is None else loss) for update, loss in of.items()]
        for name, of in losses.items()
    }
    if not curves["train"]:
        raise InputError(f"{log}: the file has no losses; name the log of fairseq-train")
    return curves


def draw(curves: dict[str, dict[str, Curve]], path: Path, highest: float) -> None:
    """Draw training losses (with dropout) as lines and validation losses with dots, up to the loss
    `highest`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for index, (name, curve) in enumerate(curves.items()):
        axis.plot(*zip(*curve["train"], strict=True), color=f"C{index}", linewidth=0.8, alpha=0.6)
        if curve["valid"]:
            axis.plot(*zip(*curve["valid"], strict=True), "o-", color=f"C{index}", label=name)
    axis.set(xlabel="updates", ylabel="loss, bits per word", ylim=(None, highest))
    axis.legend(title="validation")
    with replaced_whole(path) as partial:
        figure.savefig(partial, format="png", dpi=100)


def named_log(text: str) -> tuple[str, Path]:
    """Return the name and the log in NAME=LOG."""
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=LOG, found '{text}'")
    return name, Path(path)


def main() -> None:
    """Draw the curves and print the last perplexities."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "logs",
        nargs="+",
        type=named_log,
        metavar="NAME=LOG",
        help="draw the curve in this log under this name",
    )
    parser.add_argument(
        "--plot", type=Path, required=True, help="draw the curves into this PNG file"
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    parser.add_argument(
        "--highest",
        type=float,
        default=14,
        help="cut the figure off at this loss (default: %(default)s)",
    )
    arguments = parser.parse_args()
    curves = {name: read_curves(log) for name, log in arguments.logs}
    draw(curves, arguments.plot, arguments.highest)
    if arguments.json:
        with written_whole(arguments.json) as file:
            json.dump(curves, file)
    for name, curve in curves.items():
        for update, loss in curve["valid"][-1:]:
            perplexity = 2**loss if loss < LARGEST else math.inf
            print(f"{name}: {loss:.2f} bits, perplexity {perplexity:.1f} after {update} updates")


if __name__ == "__main__":
    command_line.run(main)
