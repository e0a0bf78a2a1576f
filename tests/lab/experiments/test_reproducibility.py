"""The page of what a reviewer asks: what records and logs tell, and what nothing tells."""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.lab.experiments.commands import Shell
from fairseq_posattn.lab.experiments.hardware import described
from fairseq_posattn.lab.experiments.machine import Machine, Share
from fairseq_posattn.lab.experiments.recipe import read_recipe
from fairseq_posattn.lab.experiments.reproducibility import note_preparing, write_page
from fairseq_posattn.lab.experiments.runs import Run, RunRecord, runs_in
from fairseq_posattn.lab.experiments.tables import lines_of
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
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


def training(*starts: tuple[str, str, str]) -> list[str]:
    """The log of a training that has several starts, each with three times of a day."""
    lines = ["a line without a time"]
    for begin, built, end in starts:
        lines += [
            f"2026-01-01 {begin} | INFO | fairseq.distributed.utils | distributed init (rank 0)",
            f"2026-01-01 {begin} | INFO | fairseq_cli.train | {{'_name': None}}",
            f"2026-01-01 {built} | INFO | fairseq_cli.train | num. shared model params: 1,234",
            f"2026-01-01 {end} | INFO | train_inner | epoch 001:  1 / 9 loss=5, num_updates=1",
        ]
    return lines


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "recipe.toml", RECIPE)
    for name, lines in {"train": 5, "dev": 2, "gen": 3, "test": 4}.items():
        write(tmp_path / f"work/raw/{name}.en", ["a b"] * lines)
    return Workplace(tmp_path / "work", Shell(), recipe=read_recipe(str(tmp_path)))


def run_of(place, name: str, seed: int, options: list[str], trees: str, log: list[str]) -> Run:
    """A run whose folder has what training and translating leave there."""
    files = {"dict.en.txt": {"bytes": 7, "sha256": "d" * 64}}
    files["train.tree.bin"] = {"bytes": 8, "sha256": trees[0] * 64}
    options = [*OPTIONS, *options, "--seed", str(seed)]
    run = Run(place.runs, RunRecord(name, "base", seed, 2, trees, options, files, []))
    run.begin()
    write(run.folder / "train.log", log)
    return run


def page_of(place, plan: Plan, runs: list[Run]) -> str:
    """The page about these runs; scores of the second model have no interval."""
    results = {}
    for system in ("sequence.base", "chain.base"):
        for test in ("gen", "test"):
            score = {"score": 35.5, "signature": "nrefs:1|version:2.6.0"}
            score |= {"interval": [34.25, 36.75]} if system == "sequence.base" else {}
            about = {"version": 1, "system": system, "test": test, "scores": {"BLEU": score}}
            about |= {"code": "0.3.0+s", "training": {"parameters": 1234}}
            path = write(place.work / f"{system}.{test}.json", json.dumps(about))
            results[system, test, None] = path
    lines = lines_of(place.content.models, ["gen", "test"], results, [])
    write_page(place, plan, lines, runs)
    return (place.work / "reproducibility.md").read_text()


def section(page: str, name: str) -> str:
    return page.partition(f"## {name}\n")[2].partition("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    return [
        [c.strip(" `") for c in line[1:-1].split("|")] for line in text.splitlines() if "|" in line
    ]


@pytest.fixture
def runs(place):
    """Of two seeds the first went on elsewhere after two hours; another run notes no machine."""
    whole = training(("10:00:00", "10:01:00", "10:10:00"))
    resumed = training(("10:00:00", "10:01:00", "10:10:00"), ("12:10:00", "12:11:00", "12:30:00"))
    made = [
        run_of(place, "sequence", 1, [], "own", resumed),
        run_of(place, "sequence", 2, [], "own", whole),
        run_of(place, "chain", 1, ["--dropout", "0.3"], "chain", whole),
    ]
    for machine in ("One", "Two"):
        made[0].begin(machine)
    made[1].begin("One")
    return made


def test_models_with_times_summed_by_hand(place, runs):
    text = section(page_of(place, Plan(), runs), "Models")
    head, _, sequence, chain = cells(text)
    assert head == ["model", "size", "runs", "gen", "test", "parameters", "training"]
    scored = ["BLEU 35.50 (34.25 to 36.75)"] * 2
    assert sequence == [
        *("sequence", "base", "2 (seeds 1, 2)", *scored, "1,234"),
        "20 min",  # 10 and 20 minutes of the first seed, and 10 of the second
    ]
    assert chain == [*("chain", "base", "1 (seeds 1)", "BLEU 35.50", "BLEU 35.50", "1,234")] + [
        "10 min"
    ]


def test_what_no_log_tells_is_not_guessed(place, runs):
    (runs[0].folder / "train.log").unlink()
    _, _, sequence, chain = cells(section(page_of(place, Plan(), runs), "Models"))
    assert (sequence[-1], chain[-1]) == ("–", "10 min")


def test_machines(place, runs):
    assert cells(section(page_of(place, Plan(), runs), "Machines"))[2:] == [
        ["One", "sequence.base.seed1, sequence.base.seed2"],
        ["Two", "sequence.base.seed1"],
        ["unknown", "chain.base.seed1"],
    ]


def test_hyper_parameters(place, runs):
    text = section(page_of(place, Plan(last=2), runs), "Hyper-parameters")
    rows = cells(text)
    shared = dict(row for row in rows[2:] if len(row) == 2)
    assert shared == {
        **{"updates": "2", "lr": "0.1", "adam-betas": "(0.9, 0.98)", "share": "yes"},
        **{"averaged": "2", "beam": "4", "lenpen": "0.6"},
    }
    assert [row for row in rows if len(row) == 3][2:] == [
        ["sequence", "base", "trees own; dropout 0.1"],
        ["chain", "base", "trees chain; dropout 0.3"],  # the later one of two
    ]
    assert "How they were chosen: by a search on dev" in text


def test_data_versions_and_commands(place, runs):
    asked = Plan(called="posattn recipe table 'my recipe' --seeds 1-2")
    page = page_of(place, asked, runs)
    text = section(page, "Data")
    sizes = [["train", "training", "5"], ["dev", "validation", "2"]]
    assert cells(text)[2:6] == [*sizes, ["gen", "test", "3"], ["test", "test", "4"]]
    assert "Licence: CC BY 4.0" in text
    digest = hashlib.sha256(b"a b\n" * 3).hexdigest()
    assert cells(text)[8:12] == [
        ["dict.en.txt", "7", "d" * 64],
        ["train.tree.bin (own)", "8", "o" * 64],
        ["train.tree.bin (chain)", "8", "c" * 64],
        ["gen.en", "12", digest],
    ]
    programs = dict(cells(section(page, "Versions"))[2:])
    assert programs["sacrebleu"] == "2.6.0"
    assert programs["fairseq_posattn, scores"] == "0.3.0+s"
    assert programs["fairseq_posattn, training"] == code_version()
    commands = section(page, "Commands")
    assert "the data were prepared are unknown" in commands and asked.called in commands
    note_preparing(place, Plan(called="posattn recipe prepare x -- --workers 2"))
    commands = section(page_of(place, asked, runs), "Commands")
    assert "unknown" not in commands
    assert f"prepare x -- --workers 2\n{asked.called}\n" in commands


def test_what_a_recipe_does_not_say(place, runs):
    path = place.recipe.folder / "recipe.toml"
    silent = re.sub(r'chosen = .*|, licence = "CC BY 4.0"', "", path.read_text())
    write(path, silent)
    place.recipe = read_recipe(str(path.parent))
    page = page_of(place, Plan(), runs)
    for key in ("chosen", "corpus.licence"):
        assert f": unknown; state it as `{key}` in recipe.toml." in page


def test_machines_that_start_a_run_together_are_all_recorded(place):
    run = Run(place.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
    names = [f"machine {k}" for k in range(8)]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(run.begin, names))
    assert sorted(runs_in(place.runs)[0].record.machines) == names


def test_each_machine_is_recorded_once(place, monkeypatch):
    run = Run(place.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
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
        run.begin(machine)
    [stored] = runs_in(place.runs)
    assert stored.record.machines == [cpu, gpu] and stored.record.key == run.record.key
