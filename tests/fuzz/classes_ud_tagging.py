"""These inputs are of the taggers' recipe: logs of a run, and curves."""

from __future__ import annotations

import json
from pathlib import Path

from .classes_logs import measured, write
from .classes_report import SYSTEMS
from .mutations import COLUMNS
from .registry import add
from .runner import InputClass

TRAINED = """\
2026-01-02 03:04:06 | INFO | fairseq_cli.train | num. model params: 1,400,832 (num. trained: 9)
2026-01-02 03:04:07 | INFO | train | {"epoch": 1, "train_loss": "2.1", "train_train_wall": "31"}
2026-01-02 03:04:08 | INFO | valid | {"epoch": 1, "valid_loss": "1.1", "valid_accuracy": "90.5"}
2026-01-02 03:04:09 | INFO | train | {"epoch": 2, "train_loss": "1.1", "train_train_wall": "30"}
2026-01-02 03:04:10 | INFO | valid | {"epoch": 2, "valid_loss": "1.0", "valid_accuracy": "91.5"}
"""
TESTED = """\
2026-01-02 03:05:06 | INFO | test | {"epoch": 2, "test_loss": "1.1", "test_accuracy": "91.2", \
"test_oov_accuracy": "nan", "test_ambiguous_accuracy": "88.1"}
"""


def finished(folder: Path) -> None:
    write(folder / "run/train.log", TRAINED)
    write(folder / "run/test.log", TESTED)


for name, log in (("trained", "train"), ("accuracies", "test")):
    add(
        InputClass(
            f"tagging recipe: {log}.log",
            finished,
            measured("ud_tagging", name, f"run/{log}.log"),
            damaged=[f"run/{log}.log"],
            mutations=COLUMNS,
            outputs=["out.json"],
            share=0.5,
        )
    )


def curve(folder: Path) -> None:
    points = [{"updates": 100 * k, "loss": 1.5, "accuracy": 80.0 + k} for k in (1, 2)]
    write(folder / "curve.jsonl", "".join(json.dumps(point) + "\n" for point in points))


add(
    InputClass(
        "tagging recipe: curves",
        curve,
        measured("ud_tagging", "points", "curve.jsonl"),
        damaged=["curve.jsonl"],
        mutations=SYSTEMS,
        outputs=["out.json"],
        share=0.2,
    )
)
