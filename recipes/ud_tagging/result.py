"""The result of one run, from its logs: accuracies on the test set, epochs, time, parameters.

python recipes/ud_tagging/result.py RUN --treebank T --model M --seed N --out result.json
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from fairseq_posattn import command_line
from fairseq_posattn.files import InputError, read_lines, written_whole
from fairseq_posattn.tagging.accuracy import GROUPS

JSON = re.compile(r"\| (?P<kind>[\w]+) \| (?P<figures>\{.*\})$")
PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")


def figures(log: Path, kind: str) -> list[dict]:
    """The lines of figures of one kind (train, valid, test) of a log."""
    found = (JSON.search(line) for line in read_lines(log))
    return [json.loads(match["figures"]) for match in found if match and match["kind"] == kind]


def tested(log: Path) -> dict[str, float]:
    """Accuracies on the test set; a group without a word has none."""
    lines = figures(log, "test")
    if not lines:
        raise InputError(f"{log}: has no line with accuracies")
    names = {name: lines[-1].get(f"test_{name}", lines[-1].get(name)) for name in GROUPS.values()}
    return {name: float(value) for name, value in names.items() if value not in (None, "nan")}


def trained(log: Path) -> dict[str, float]:
    """Of a training that was interrupted, each epoch once."""
    epochs = {line["epoch"]: line for line in figures(log, "train")}
    validated = {line["epoch"]: float(line["valid_accuracy"]) for line in figures(log, "valid")}
    walls = [float(line["train_train_wall"]) for line in epochs.values()]
    parameters = next(filter(None, map(PARAMETERS.search, read_lines(log))))
    return {
        "parameters": int(parameters[1].replace(",", "")),
        "epochs": max(epochs),
        "best_epoch": max(validated, key=validated.get),
        "dev_accuracy": max(validated.values()),
        "seconds_per_epoch": round(sum(walls) / len(walls), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--treebank", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    result = {"treebank": args.treebank, "model": args.model, "seed": args.seed}
    result |= tested(args.run / "test.log") | trained(args.run / "train.log")
    with written_whole(args.out) as file:
        file.write(json.dumps(result, indent=1) + "\n")
    print(
        f"{args.treebank} {args.model} {args.seed}: "
        + ", ".join(f"{name} {result[name]:.2f}" for name in GROUPS.values() if name in result)
        + f" after {result['epochs']} epochs of {result['seconds_per_epoch']:.1f} s"
    )


if __name__ == "__main__":
    command_line.run(main)
