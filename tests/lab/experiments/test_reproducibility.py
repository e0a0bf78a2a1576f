"""The page of what a reviewer asks: what records and logs tell, and what nothing tells."""

import hashlib
import json
import re
import sys
from types import SimpleNamespace

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.lab.experiments import energy
from fairseq_posattn.lab.experiments.commands import Shell
from fairseq_posattn.lab.experiments.machine import Machine, Share
from fairseq_posattn.lab.experiments.recipe import read_recipe
from fairseq_posattn.lab.experiments.reproducibility import note_preparing, write_page
from fairseq_posattn.lab.experiments.runs import Run, RunRecord
from fairseq_posattn.lab.experiments.starts import note_start, starts_in
from fairseq_posattn.lab.experiments.tables import lines_of
from fairseq_posattn.lab.experiments.training import train_once
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
ONE = {"processor": "One", "cores": 2, "memory": 8_000_000_000, "gpus": []}
ONE |= {"processes": 1, "threads": 1, "precision": "fp32", "versions": {"torch": "2.1"}}
TWO = {**ONE, "processor": "Two", "gpus": ["H", "H"], "threads": None, "versions": {"torch": "2.2"}}


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


def translating(seconds: float) -> str:
    return f"Translated 2 sentences (9 tokens) in {seconds}s (0.1 sentences/s, 0.4 tokens/s)\n"


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
    for shard, seconds in enumerate((20.0, 60.0)):  # side by side
        write(run.folder / f"gen.shard{shard}", translating(seconds))
    write(run.folder / "test.shard0", translating(60.0 * seed))
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
    for run, starts in zip(made, ([ONE, TWO], [ONE]), strict=False):
        write(run.folder / "machine.json", json.dumps({"starts": starts}))
    return made


def test_models_with_times_summed_by_hand(place, runs):
    text = section(page_of(place, Plan(), runs), "Models")
    head, _, sequence, chain = cells(text)
    assert head == ["model", "size", "runs", "gen", "test", "parameters", "training", "translating"]
    scored = ["BLEU 35.50 (34.25 to 36.75)"] * 2
    assert sequence == [
        *("sequence", "base", "2 (seeds 1, 2)", *scored, "1,234"),
        "20 min (10 min to 30 min)",  # 10 and 20 minutes of the first seed
        "2 min (2 min to 3 min)",  # the slower process, and the second test set
    ]
    assert chain == [*("chain", "base", "1 (seeds 1)", "BLEU 35.50", "BLEU 35.50", "1,234")] + [
        *("10 min", "2 min")
    ]


def test_what_no_log_tells_is_not_guessed(place, runs):
    (runs[0].folder / "train.log").unlink()
    (runs[2].folder / "test.shard0").unlink()
    _, _, sequence, chain = cells(section(page_of(place, Plan(), runs), "Models"))
    assert sequence[-2:] == ["–", "2 min (2 min to 3 min)"]
    assert chain[-2:] == ["10 min", "–"]


def test_machines(place, runs):
    text = section(page_of(place, Plan(), runs), "Machines")
    about = ["2", "8.0 GB", "none", "1, threads of each: 1", "fp32"]
    assert cells(text)[2:] == [
        ["One", *about, "sequence.base seed 1, 2"],
        ["Two", "2", "8.0 GB", "2 × H", "1", "fp32", "sequence.base seed 1"],
    ]
    assert text.endswith("The machine is unknown for these runs: chain.base seed 1.\n")


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
    assert programs["torch"] == "2.1, 2.2" and programs["sacrebleu"] == "2.6.0"
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


def test_a_start_is_noted(place, monkeypatch):
    """Once for each machine; the log of another host has a file of its own."""
    run = Run(place.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
    run.begin()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine = Machine(cpu=True, processes=2)
    for threads in (3, 3, 4):
        note_start(run.folder, ["--cpu"], machine, Share(threads=threads))
    found = json.loads((run.folder / "machine.json").read_text())["starts"]
    assert [start["threads"] for start in found] == [3, 4]
    assert found[0]["processes"] == 2 and found[0]["gpus"] == []
    assert found[0]["cores"] > 0 < found[0]["memory"] and found[0]["processor"]
    assert {"Python", "torch", "fairseq"} == found[0]["versions"].keys()
    assert found[0]["precision"] == "fp32"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    gpus = [SimpleNamespace(name=name) for name in "AB"]
    monkeypatch.setattr("torch.cuda.get_device_properties", gpus.__getitem__)
    note_start(run.folder, ["--bf16"], Machine(gpus=1), Share(gpus=("5",)))
    last = json.loads((run.folder / "machine.json").read_text())["starts"][-1]
    assert (last["gpus"], last["processes"], last["precision"]) == (["B"], 1, "bf16")
    other = Machine(cpu=True, nodes=2, rendezvous="n0:1", node_rank=1)
    note_start(run.folder, ["--fp16"], other, Share())
    [path] = run.folder.glob("machine.*.json")
    assert json.loads(path.read_text())["starts"][0]["precision"] == "fp16"
    write(run.folder / "machine.json", "{")
    with pytest.raises(InputError, match=r"machine.json: .*; move the folder away, and train"):
        note_start(run.folder, ["--cpu"], machine, Share())


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that sets what a machine with two processors and two GPUs tells: the time
    in seconds, the counters, which begin anew after 9,999,999 microjoules, and the watts."""
    zones, watts = tmp_path / "zones", tmp_path / "watts"
    names = {"0": "package-0", "0:0": "core", "1": "package-1"}
    for zone, name in names.items():
        write(zones / f"intel-rapl:{zone}/name", name)
        write(zones / f"intel-rapl:{zone}/max_energy_range_uj", "9999999")
    program = write(
        tmp_path / "bin/nvidia-smi", f'#!/bin/sh\n[ "$4" = GPU-a,GPU-b ] && cat {watts}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(energy, "ZONES", zones)
    gpus = [SimpleNamespace(uuid=name) for name in "ab"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr("torch.cuda.get_device_properties", gpus.__getitem__)

    def tells(seconds: float, counts: tuple[int, ...], power: str = "") -> None:
        monkeypatch.setattr("time.monotonic", lambda: seconds)
        for zone, count in zip(names, counts, strict=True):
            write(zones / f"intel-rapl:{zone}/energy_uj", str(count))
        write(watts, power)

    return tells


def meter_on(folder, machine, *readings) -> None:
    """Meter a training of which the machine tells these readings, the last at its end."""
    machine(*readings[0])
    meter = energy.Meter(folder, Machine(gpus=2), Share())
    for reading in readings[1:]:
        machine(*reading)
        meter.look(reading is readings[-1])


def test_energy_summed_by_hand(place, runs, machine):
    """Counters begin anew, the power between two readings is their mean, and a resumed training
    goes on with its sums; a sleeping machine is left out."""
    folder = runs[0].folder
    first = [(0, (9_000_000, 5, 100), "100\n20\n"), (9, (1, 1, 1), "0\n0\n")]  # too early to look
    first += [(20, (1_000_000, 7, 500_100), "200\n80\n"), (24, (3_000_000, 9, 500_100), "0\n0\n")]
    meter_on(folder, machine, *first)
    found = json.loads((folder / "energy.json").read_text())
    # 2 and 0.5 joules, then 2 more; 20 seconds of (120 + 280) / 2 watts, then 4 of 140
    assert found == {"processors": 4.5, "gpus": 4560.0, "seconds": 24}
    slept = [(100, (0, 0, 0), "50\n50\n"), (500, (7, 7, 7), "50\n50\n")]
    meter_on(folder, machine, *slept, (510, (3_500_007, 8, 7), "50\n50\n"))
    found = json.loads((folder / "energy.json").read_text())
    assert found == {"processors": 8.0, "gpus": 5560.0, "seconds": 34}
    text = {"processors": 3.6e5, "gpus": 7.2e6, "seconds": 600.0}
    write(runs[0].folder / "energy.json", json.dumps(text))
    table = section(page_of(place, Plan(), runs), "Energy")
    head, _, row = cells(table)
    assert head == ["model", "size", "runs", "processors", "GPUs", "metered"]
    assert row == ["sequence", "base", "1 of 2", "0.1 kWh", "2 kWh", "10 min"]


def test_energy_that_no_machine_tells_is_not_on_the_page(place, runs, machine, monkeypatch):
    meter_on(runs[0].folder, machine, (0, (0, 0, 0), "[N/A]\n[N/A]\n"), (20, (4, 4, 4), "1\n1\n"))
    found = json.loads((runs[0].folder / "energy.json").read_text())
    assert found["processors"] == 8e-6 and found["gpus"] is None
    (runs[0].folder / "energy.json").unlink()
    monkeypatch.setattr(energy, "ZONES", energy.ZONES / "none")
    meter_on(runs[0].folder, machine, (0, (0, 0, 0), ""), (20, (4, 4, 4), ""))
    assert not list(place.runs.rglob("energy*"))
    assert "## Energy" not in page_of(place, Plan(), runs)
    # of two machines one tells nothing, so the sum is not known
    write(
        runs[0].folder / "energy.json", json.dumps({"processors": 1.0, "gpus": 1.0, "seconds": 1})
    )
    write(runs[0].folder / "train.other.log", "")
    assert "## Energy" not in page_of(place, Plan(), runs)


def test_a_training_is_metered(place, machine):
    machine(0, (1_000_000, 0, 0))
    run = Run(place.runs, RunRecord("sequence", "base", 1, 2, "own", [], {}))
    rises = "import sys; open(sys.argv[1], 'w').write('3000000')"
    command = [sys.executable, "-c", rises, energy.ZONES / "intel-rapl:0/energy_uj"]
    train_once(place, run, lambda: command, Machine(cpu=True), Share())
    found = json.loads((run.folder / "energy.json").read_text())
    assert found == {"processors": 2.0, "gpus": None, "seconds": 0}


@pytest.mark.parametrize("key", ["processors", "gpus", "seconds"])
def test_energies_are_not_negative(tmp_path, key):
    metered = {"processors": 1.5, "gpus": None, "seconds": 2, key: -1}
    path = write(tmp_path / "energy.json", json.dumps(metered))
    with pytest.raises(InputError, match=rf"{path}: {key} is -1, expected at least 0; "):
        energy.energy_in(tmp_path)


@pytest.mark.parametrize("key", ["cores", "processes", "threads"])
def test_a_machine_has_cores(tmp_path, machine, key):
    note_start(tmp_path, ["--cpu"], Machine(cpu=True), Share(threads=1))
    path = tmp_path / "machine.json"
    noted = json.loads(path.read_text())
    noted["starts"][0][key] = 0
    write(path, json.dumps(noted))
    with pytest.raises(InputError, match=rf"starts\[0\].{key} is 0, expected at least 1; "):
        starts_in(tmp_path)
