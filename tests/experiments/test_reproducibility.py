"""The reproducibility checklist, and what records of runs say about machines."""

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe_options import Table
from fairseq_posattn.experiments.reproducibility import note_preparing, write_checklist
from fairseq_posattn.experiments.runs import Run, RunRecord, runs_in
from fairseq_posattn.experiments.training import described
from fairseq_posattn.experiments.translation import Translation
from fairseq_posattn.files.version import code_version
from support.files import write

RECIPE = """
title = "Small"
source = "en"
target = "de"
chosen = "by a search on dev"
corpus = { valid = "dev", tests = ["gen", "test"], licence = "CC BY 4.0" }
models = [
  { model = "sequence", size = "base" },
  { name = "chain", model = "structural", size = "base", trees = "chain" },
]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000, averaged = 3 }
evaluation = { beam = 4, lenpen = 0.6 }
"""
OPTIONS = ["--lr", "0.1", "--adam-betas", "(0.9, 0.98)", "--share", "--dropout", "0.1"]


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["posattn recipe", "table", "x"])
    write(tmp_path / "recipe.toml", RECIPE)
    for name, lines in {"train": 5, "dev": 2, "gen": 3, "test": 4}.items():
        write(tmp_path / f"work/raw/{name}.en", ["a b"] * lines)
    return Translation(Table(recipe=str(tmp_path)))


@pytest.fixture
def runs(experiment):
    """The first run was continued on another machine; those of chain name no machine."""
    found = []
    for name, seed, options, trees in (
        ("sequence", 1, [], "own"),
        ("sequence", 2, [], "own"),
        ("chain", 1, ["--dropout", "0.3"], "chain"),
        ("chain", 2, ["--dropout", "0.5"], "chain"),
    ):
        files = {"train.tree.bin": {"bytes": 8, "sha256": trees[0] * 64}}
        options = [*OPTIONS, *options, "--seed", str(seed)]
        found.append(Run(experiment.runs, RunRecord(name, "base", seed, 2, trees, options, files)))
    for run, machine in zip([*found, found[0]], ["One", "One", "", "", "Two"], strict=True):
        run.record_start(machine)
    return found


def cells(experiment, runs) -> list[list[str]]:
    write_checklist(experiment, runs)
    lines = (experiment.work / "reproducibility.md").read_text().splitlines()
    return [[c.strip(" `") for c in line[1:-1].split("|")] for line in lines if "|" in line]


def test_the_checklist(experiment, runs):
    rows = cells(experiment, runs)
    for row in (
        ["sequence.base.seed1", "One; Two", code_version()],
        ["sequence.base.seed2", "One", code_version()],
        ["chain.base.seed1", "–", code_version()],
        ["updates", "2"],
        ["adam-betas", "(0.9, 0.98)"],
        ["share", "yes"],
        ["averaged", "3"],
        ["beam", "4"],
        ["sequence.base", "trees own; trees of the tests own; dropout 0.1"],
        ["chain.base", "trees chain; trees of the tests chain; dropout 0.3"],  # the later of two
        ["chain.base", "trees chain; trees of the tests chain; dropout 0.5"],
        ["train", "training", "5"],
        ["dev", "validation", "2"],
        ["gen", "test", "3"],
        ["train.tree.bin", "own", "8", "o" * 64],
        ["train.tree.bin", "chain", "8", "c" * 64],
    ):
        assert rows.count(row) == 1, row
    page = (experiment.work / "reproducibility.md").read_text()
    assert "How they were chosen: by a search on dev" in page and "Licence: CC BY 4.0" in page
    called = "posattn recipe table x\n"
    assert "prepare" in page and f"# with unknown options\n{called}" in page
    note_preparing(experiment)
    cells(experiment, runs)
    assert f"{called}{called}" in (experiment.work / "reproducibility.md").read_text()


def test_what_a_recipe_does_not_say(experiment, runs):
    path = experiment.folder / "recipe.toml"
    write(path, re.sub(r'chosen = .*|, licence = "CC BY 4.0"', "", path.read_text()))
    cells(Translation(experiment.settings), runs)
    page = (experiment.work / "reproducibility.md").read_text()
    for key in ("chosen", "corpus.licence"):
        assert f": unknown; state it as `{key}` in recipe.toml." in page


def test_machines_that_start_a_run_together_are_all_recorded(experiment):
    run = Run(experiment.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
    names = [f"machine {k}" for k in range(8)]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(run.record_start, names))
    assert sorted(runs_in(experiment.runs)[0].record.machines) == names


def test_each_machine_is_recorded_once(experiment, monkeypatch):
    run = Run(experiment.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
    cpu = described(Machine(cpu=True, processes=2), Share(), ["--cpu"])
    assert re.fullmatch(
        r".+, \d+ cores?, [\d.]+ GB, no GPU; 2 processes, fp32; Python 3.+, torch 2.+, fairseq .+",
        cpu,
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    gpus = [SimpleNamespace(name=name) for name in "AB"]
    monkeypatch.setattr("torch.cuda.get_device_properties", gpus.__getitem__)
    gpu = described(Machine(gpus=1), Share(gpus=("5",)), ["--bf16"])
    assert ", 1 x B; 1 process, bf16; " in gpu
    for machine in (cpu, cpu, gpu):
        run.record_start(machine)
    [stored] = runs_in(experiment.runs)
    assert stored.record.machines == [cpu, gpu] and stored.record.key == run.record.key
