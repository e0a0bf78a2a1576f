"""What the recipes keep: runs, results and their stamps, presets, the taggers' logs."""

from __future__ import annotations

import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from unittest import mock

from fairseq_posattn.experiments import runs
from fairseq_posattn.files.files import write_json

from .classes_logs import measured, write
from .corpora import must_pass
from .mutations import BYTES, COLUMNS, JSON, LINES
from .registry import ROOT, Command, add, calling, content

RECORD = runs.RunRecord(
    name="sequence",
    size="treebank",
    seed=1,
    updates=100,
    trees="own",
    options=["--arch", "posattn_sequence", "--lr", "0.1 0.2"],
    files={"train.src": {"bytes": 1, "sha256": "0"}},
)


def two_runs(folder: Path) -> None:
    """Two runs of one name, which differ in their options."""
    for record in (RECORD, replace(RECORD, options=[*RECORD.options, "--dropout", "0"])):
        run = runs.Run(folder / "runs", record)
        run.record_start()
        run.finish()


@add("run.json", two_runs, "runs/*/run.json", JSON, "out", also_named="runs")
@calling
def find(folder: Path) -> None:
    """What train, evaluate and table do with the runs that are there."""
    planned = runs.Run(folder / "runs", RECORD)
    planned.record_start()
    found = runs.one_run(folder / "runs", RECORD.system, 1, lambda: planned)
    other = runs.runs_in(folder / "runs")[-1]
    write_json(folder / "out", [found.name, other.record.difference(found.record)])


# result.json: the stamp of its step has its checksum

MEASURED = {
    "bleu": 20.5,
    "exact": {"ambiguous": 0.5, "of these ties": 0.25, "unambiguous": 1.0},
    "signature": "nrefs:1",
    "parameters": 1234,
    "train_words_per_second": 100.5,
    "generate_sentences_per_second": 10.5,
}


def show_result(folder: Path) -> None:
    """What table.sh of the toy recipe does with a run that has ended: test it once, and show it."""
    from fairseq_posattn.experiments.machine import Machine, Share
    from fairseq_posattn.experiments.recipe_options import Table
    from fairseq_posattn.experiments.translation import experiment_class

    file = ROOT / "recipes/toy/recipe.toml"
    recipe = experiment_class(file)
    trial = recipe(Table(recipe=str(file.parent), work=folder))
    row = next(row for row in trial.content.models if row.name == RECORD.name)
    run = runs.Run(folder / "runs", RECORD)
    with mock.patch.multiple(
        recipe, test=lambda *_: MEASURED, test_files=lambda *_: [], draw=lambda *_: None
    ):
        trial.test_one(run, True, Machine(cpu=True), Share())
        trial.write([row], [run], [])


def tested(folder: Path) -> None:
    run = runs.Run(folder / "runs", RECORD)
    run.record_start()
    run.finish()
    must_pass(Command(lambda: show_result(folder)))
    for path in folder.glob("table.*"):
        path.unlink()


add(
    "result.json and its stamp",
    tested,
    "runs/*/result.json runs/*/steps/*.json",
    JSON,
    "table.md table.csv table.tex",
    result=content("table.md"),
    share=0.5,
)(calling(show_result))

# presets


def preset(folder: Path) -> None:
    shutil.copy(
        ROOT / "fairseq_posattn/fairseq_plugin/config/size/wmt_en_de.yaml", folder / "base.yaml"
    )


def fill_in(folder: Path) -> None:
    """What --arch does with a preset of this folder."""
    from fairseq_posattn.fairseq_plugin.models.preset_files import fill_in, read_options

    options = read_options(folder / "base.yaml")
    given = Namespace(encoder_embed_dim=8)
    fill_in(given, options)
    assert given.encoder_embed_dim == 8 and len(vars(given)) > 1


add("presets", preset, "base.yaml", [*LINES, *BYTES], share=0.5)(calling(fill_in))

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


def logged(folder: Path) -> None:
    write(folder / "run/train.log", TRAINED)
    write(folder / "run/test.log", TESTED)


for name, log in (("trained", "train"), ("accuracies", "test")):
    add(f"tagging recipe: {log}.log", logged, f"run/{log}.log", COLUMNS, "out.json", share=0.5)(
        measured("ud_tagging", name, f"run/{log}.log")
    )
