"""These inputs are of the taggers' recipe: logs of a run, results, published tables, curves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .classes_logs import write
from .classes_report import SYSTEMS
from .mutations import COLUMNS
from .registry import ROOT, add, program
from .runner import Command, InputClass

RECIPE = ROOT / "recipes/ud_tagging"
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


add(
    InputClass(
        "tagging recipe: logs",
        finished,
        lambda folder: Command(
            program("recipes/ud_tagging/result.py"),
            [folder / "run", "--treebank", "T", "--model", "conv2d", "--seed", 1]
            + ["--out", folder / "out.json"],
        ),
        damaged=["run/*.log"],
        mutations=COLUMNS,
        outputs=["out.json"],
    )
)


def results(folder: Path) -> None:
    figures = {"parameters": 1_400_832, "accuracy": 91.2, "ambiguous_accuracy": 88.1}
    for model in ("pe_add", "conv2d"):
        for seed in (1, 2):
            result = {"treebank": "Afrikaans-AfriBooms", "model": model, "seed": seed, **figures}
            name = f"Afrikaans-AfriBooms.{model}.{seed}"
            write(folder / f"results/{name}.json", json.dumps(result))
            points = [{"updates": 100 * k, "loss": 1.5, "accuracy": 80.0 + k} for k in (1, 2)]
            lines = "".join(json.dumps(point) + "\n" for point in points)
            write(folder / f"runs/{name}/curve.jsonl", lines)
    for name in ("models.tsv", "published.tsv"):
        shutil.copy(RECIPE / name, folder)


def tables(*figure: str):
    def command(folder: Path) -> Command:
        options = [folder / "results", "--out", folder / "out.md"]
        for name in ("models", "published"):
            options += [f"--{name}", folder / f"{name}.tsv"]
        if figure:
            options += ["--figure", folder / "out.png", "--curves", folder / "runs"]
        return Command(program("recipes/ud_tagging/table.py"), options)

    return command


for name, damaged, mutations, figure, share in (
    ("results", ["results/*.json"], SYSTEMS, (), 0.5),
    ("tables", ["*.tsv"], COLUMNS, (), 0.5),
    ("curves", ["runs/*/*"], SYSTEMS, ("with",), 0.2),
):
    add(
        InputClass(
            f"tagging recipe: {name}",
            results,
            tables(*figure),
            damaged=damaged,
            mutations=mutations,
            outputs=["out.md", "out.png"],
            share=share,
            left=["out.md"] if figure else [],
        )
    )
