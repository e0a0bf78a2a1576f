"""Training and validation loss of several models against their updates, as a figure.

    python recipes/lm/learning_curves.py positional=LOG attentive=LOG lstm=LOG --plot FILE.png

LOG is what fairseq-train printed, or the train.log of recipes/lm/run.sh.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.files import read_lines

# in both of fairseq's formats, simple and json
NUMBER = r"[\"' =:]+([0-9]{1,15}(?:\.[0-9]+)?|inf|nan)\b"
UPDATE = r"[\"' =:]+([0-9]{1,15})\b"
TRAINING = re.compile(rf"train_inner .*?\bloss{NUMBER}.*?num_updates{UPDATE}")
VALIDATION = re.compile(rf"\| valid .*?\b(?:valid_)?loss{NUMBER}.*?num_updates{UPDATE}")

LARGEST = 1000  # bits of loss whose perplexity Python can still hold
Curve = list[tuple[int, float]]  # update, loss in bits of each word


def read_curves(log: Path) -> dict[str, Curve]:
    curves: dict[str, Curve] = {"train": [], "valid": []}
    for line in read_lines(log):
        for name, pattern in (("train", TRAINING), ("valid", VALIDATION)):
            if found := pattern.search(line):
                curves[name].append((int(found[2]), float(found[1])))
    if not curves["train"]:
        raise InputError(f"{log}: no losses in it; name the log of fairseq-train")
    return curves


def draw(curves: dict[str, dict[str, Curve]], path: Path, highest: float) -> None:
    """Solid: training, with dropout; dots: validation. Higher losses run out of the figure."""
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
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: NAME=LOG is expected")
    return name, Path(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", type=named_log, metavar="NAME=LOG")
    parser.add_argument("--plot", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--highest", type=float, default=14, help="loss at the figure's upper edge")
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
