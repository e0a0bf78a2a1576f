"""Collect accuracies, epochs, time and parameters of one run from its logs.

python recipes/ud_tagging/result.py RUN --treebank T --model M --seed N --out result.json
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.fairseq_logs.training_log import PARAMETERS, number
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.tagging.accuracy import GROUPS

JSON = re.compile(r"\| (?P<kind>[\w]+) \| (?P<figures>\{.*\})$")
AGAIN = "delete the folder of this run and start recipes/ud_tagging/run.sh again"


def figures(log: Path, kind: str) -> list[dict]:
    """Return the lines of figures of one kind (train, valid, test) of a log."""
    found = []
    for place, line in enumerate(read_lines(log), start=1):
        if (match := JSON.search(line)) and match["kind"] == kind:
            try:
                found.append(json.loads(match["figures"]))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{log}:{place}: the line is damaged ({error}); {AGAIN}"
                ) from error
    return found


def tested(log: Path) -> dict[str, float]:
    """Return the accuracies on the test set; a group without words has none."""
    lines = figures(log, "test")
    if not lines:
        raise InputError(f"{log}: the log has no line with accuracies; {AGAIN}")
    names = {name: lines[-1].get(f"test_{name}", lines[-1].get(name)) for name in GROUPS.values()}
    return {
        name: number_of(log, name, value)
        for name, value in names.items()
        if value not in (None, "nan")
    }


def trained(log: Path) -> dict[str, float]:
    """Return the size of the model, and the epochs of its training, each once even if it was
    interrupted."""
    epochs = {number_of(log, "epoch", line.get("epoch")): line for line in figures(log, "train")}
    validated = {
        number_of(log, "epoch", line.get("epoch")): number_of(
            log, "valid_accuracy", line.get("valid_accuracy")
        )
        for line in figures(log, "valid")
    }
    walls = [
        number_of(log, "train_train_wall", line.get("train_train_wall")) for line in epochs.values()
    ]
    parameters = next(filter(None, map(PARAMETERS.search, read_lines(log))), None)
    if not (epochs and validated and parameters):
        raise InputError(f"{log}: the log has no complete training; {AGAIN}")
    return {
        "parameters": int(parameters[1].replace(",", "")),
        "epochs": int(max(epochs)),
        "best_epoch": int(max(validated, key=validated.get)),
        "dev_accuracy": max(validated.values()),
        "seconds_per_epoch": round(sum(walls) / len(walls), 2),
    }


def number_of(log: Path, name: str, value: object) -> float:
    """Return a figure of a log, which fairseq writes as text or as a number."""
    found = number(value)
    if found is None:
        raise InputError(f"{log}: {name} is {str(value)[:40]!a}, expected a number; {AGAIN}")
    return found


def main() -> None:
    """Write and print the result of the run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="read the logs in this folder")
    parser.add_argument("--treebank", required=True, help="store this name of the treebank")
    parser.add_argument("--model", required=True, help="store this name of the model")
    parser.add_argument("--seed", type=int, required=True, help="store this seed of the run")
    parser.add_argument(
        "--training", default="", help="store what differs from the recipe's own options"
    )
    parser.add_argument("--out", required=True, help="write the result to this file (.json)")
    args = parser.parse_args()
    result = {"treebank": args.treebank, "model": args.model, "seed": args.seed}
    result["training"] = args.training
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
