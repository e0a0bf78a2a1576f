"""Compute tagging accuracy on all words, on out-of-vocabulary words, and on ambiguous words."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines

GROUPS = {"": "accuracy", "oov_": "oov_accuracy", "ambiguous_": "ambiguous_accuracy"}


def totals(outputs: Iterable[dict]) -> dict[str, float]:
    """Sum the losses, and the counts of words and correct words per group, over logging outputs."""
    outputs = list(outputs)
    parts = ["loss", *(f"{prefix}{part}" for prefix in GROUPS for part in ("words", "right"))]
    return {part: sum(float(output.get(part, 0)) for output in outputs) for part in parts}


def mean_loss(total: dict[str, float]) -> float:
    """Return the mean loss per word, in bits."""
    return total["loss"] / max(total["words"], 1) / math.log(2)


def percentages(total: dict[str, float]) -> dict[str, float]:
    """Return the accuracy on each group of words in percent; empty groups are omitted."""
    return {
        name: 100 * total[f"{prefix}right"] / total[f"{prefix}words"]
        for prefix, name in GROUPS.items()
        if total[f"{prefix}words"]
    }


def read_curve(path: str | Path) -> list[dict]:
    """Read the points of a learning curve; return an empty list if the file does not exist."""
    if not Path(path).exists():
        return []
    points = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            points.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}:{number}: the line is damaged ({error}); delete the file"
            ) from error
    return points
