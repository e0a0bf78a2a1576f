"""The recipes of published experiments, run from small files to scores, as a user runs them."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fairseq_posattn.files.version import __version__
from fairseq_posattn.report import report
from fairseq_posattn.report.systems import read_systems
from support.commands import PATIENCE
from support.experiments import (
    PREPARING,
    RECIPES,
    TINY,
    Experiment,
    copy_of,
    in_process,
    languages,
    prepared,
    tidy,
)
from support.files import lines_of

pytest.importorskip("stanza")


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
def test_from_a_corpus_to_scores(corpus, recipe, tmp_path):
    parsing = recipe == "multi30k_en_de"
    stanza = ("--lang", "de", "--model-dir", corpus.models, "--symbols", 90, "--workers", 2)
    given = {"multi30k_en_de": stanza, "wmt17_zh_en": (*PREPARING, "--shards", 2)}
    experiment = prepared(corpus, recipe, tmp_path, *given.get(recipe, ()))
    assert (experiment.work / "data/shard1").exists() == (recipe == "wmt17_zh_en")
    source, target = languages(recipe)
    for name in RECIPES[recipe]:
        for side, lines in zip((source, target), tidy(corpus, name), strict=True):
            assert lines_of(experiment.work / f"raw/{name}.{side}") == lines
    size = "demo" if recipe == "multi30k_en_de" else "base"
    tests = RECIPES[recipe] if recipe == "nist_zh_en" else RECIPES[recipe][1:]
    experiment.start("train", "structural", "--cpu", "--updates", 6, "--", *TINY)
    more = ("--with-parsing", "--examples", 2) if parsing else ("--examples", 0)
    experiment.start("evaluate", "structural", "--cpu", "--last", 2, *more)
    for test in tests:
        found = experiment.result(f"structural.{size}", test)
        assert found["sentences"] == len(tidy(corpus, test)[0])
        assert found["scores"]["BLEU"]["signature"].startswith(
            "nrefs:4" if recipe == "nist_zh_en" else "nrefs:1"
        )
        assert ("NIST BLEU" in found["scores"]) == (recipe == "nist_zh_en")
        assert found["speed"]["translation"]["sentences"] == found["sentences"]
        assert ("with_parsing" in found["speed"]) == parsing
        assert len(found.get("examples", [])) == (2 if parsing else 0)
        assert found["training"]["parameters"] > 0
        assert {"length", "depth", "split_words"} <= found["buckets"].keys()
    page = report.page(read_systems(sorted((experiment.work / "results").glob("*.json"))), recipe)
    assert all(test in page for test in tests) and f"structural.{size}" in page


@pytest.fixture(scope="session")
def small(corpus, tmp_path_factory) -> Experiment:
    return prepared(corpus, "multi30k_en_de", tmp_path_factory.mktemp("multi30k"))


def parameters(experiment: Experiment, name: str) -> dict[str, torch.Tensor]:
    [folder] = experiment.runs(name)
    return torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"]


CHOSEN = ("--models", "sequence", "structural", "structural_chain")
TABLE = ("--cpu", "--size", "demo", *CHOSEN, "--seeds", "1-2", "--updates", 4, "--last", 1)


@pytest.mark.long
def test_a_table_over_seeds(small, tmp_path):
    """All runs side by side, tests over the runs, and the report; then nothing is done again."""
    experiment = copy_of(small, tmp_path)
    table = [*TABLE, "--baseline", "sequence", "--baseline", "structural_chain", "--", *TINY]
    printed = experiment.start("table", *table).stdout
    text = (experiment.work / "table.md").read_text()
    assert text in printed
    lines = [[cell.strip(" `*") for cell in line.split("|")] for line in text.splitlines()[2:5]]
    assert [line[1:4] for line in lines] == [
        ["sequence", "demo", "2"],
        ["structural", "demo", "2"],
        ["structural_chain", "demo", "2"],
    ]
    written = (experiment.work / "table.csv").read_text().splitlines()
    rows = {row["model"]: row for row in csv.DictReader(written)}
    bleu = {name: row["test_2016_flickr BLEU"] for name, row in rows.items()}
    for name in bleu:
        found = experiment.result(f"{name}.demo", "test_2016_flickr")
        heads = found["heads"]  # compared with the parsed trees, whatever the model reads
        assert heads["words"] > 150 and 0 < heads["neighbours"] < 1
        assert {words["name"] for words in found["words"]["frequency"]} > {"1"}
        assert found["runs"] == 2 == len(found["scores"]["BLEU"]["runs"])
        assert f"{found['scores']['BLEU']['score']:.2f}" == bleu[name]
    assert rows["sequence"]["test_2016_flickr p against sequence"] == ""
    assert 0 <= float(rows["structural"]["test_2016_flickr p against structural_chain"]) <= 1
    latex = (experiment.work / "table.tex").read_text()
    assert r"\toprule" in latex and r"structural\_chain" in latex
    assert "structural_chain.demo" in (experiment.work / "report.html").read_text()
    assert len(experiment.runs("structural_chain.demo")) == 2
    page = (experiment.work / "reproducibility.md").read_text()
    assert page.count("; 1 process, fp32; Python 3.") == 6 and f" | {__version__}" in page
    before = experiment.contents()
    again = experiment.start("table", *table).stdout
    assert again.count("already trained (") == 6
    assert again.count(": already done") == 3 * 4 + 3 * 2 + 4  # heads and examples of one seed
    assert experiment.contents() == before


@pytest.mark.long(ci=True)
def test_a_table_that_is_killed_goes_on(small, tmp_path):
    """Whatever it was at, the models and the figures are those of a table that nobody disturbed."""
    broken = copy_of(small, tmp_path)
    table = ("table", "--cpu", "--size", "demo", "--models", "sequence", "structural")
    table += ("--updates", 6, "--last", 2, "--examples", 0, "--", *TINY, "--dropout", 0)
    moments = ("sequence*/checkpoint_*_3.pt", "*/averaged.pt", "*/*.shard0")
    for k, sign in enumerate((*moments, "structural*/checkpoint_*_3.pt")):
        found = lambda sign=sign: list(broken.work.glob(f"runs/{sign}"))  # noqa: E731
        kill_when(broken, found, *table, alone=k % 2 == 1)
        assert not (broken.work / "table.md").exists()
        if sign == moments[0]:
            refused = broken.start("evaluate", "sequence", "--cpu", check=False)
            assert refused.returncode == 1 and "its training is not complete" in refused.stdout
    broken.start(*table)
    (tmp_path / "whole").mkdir()
    whole = copy_of(small, tmp_path / "whole")
    whole.start(*table)
    speed = re.compile(r"[0-9,]+ \|$", re.M)
    tables = [(one.work / "table.md").read_text() for one in (whole, broken)]
    assert speed.sub("", tables[0]) == speed.sub("", tables[1])
    for name in ("sequence.demo", "structural.demo"):
        expected, found = parameters(whole, name), parameters(broken, name)
        assert all(torch.equal(found[key], value) for key, value in expected.items())


@pytest.mark.long
def test_other_options_are_another_run(small, tmp_path):
    """Neither the training nor the evaluation takes one for the other."""
    experiment = copy_of(small, tmp_path)
    common = ("sequence", "--cpu", "--updates", 2)
    for dropout in (0, 0.5, 0):
        printed = experiment.start("train", *common, "--", *TINY, "--dropout", dropout).stdout
    assert "already trained (" in printed
    assert len(experiment.runs("sequence.demo")) == 2
    evaluating = ("evaluate", "sequence", "--cpu", "--last", 1, "--examples", 0)
    refused = experiment.start(*evaluating, check=False)
    assert refused.returncode == 1
    assert "seed1 (--dropout was '0', is now '0.5')" in refused.stdout
    first, second = experiment.runs("sequence.demo")
    for folder in (first, second):
        experiment.start(*evaluating, "--run", folder.name)
    assert len(list((experiment.work / "results").glob("sequence.demo.*.json"))) == 2


@pytest.mark.long
def test_two_processes_train_as_one(small, tmp_path):
    """The batch stays the same: half as many updates are summed."""
    found = []
    for processes in (1, 2):
        (tmp_path / str(processes)).mkdir()
        experiment = copy_of(small, tmp_path / str(processes))
        common = ("--cpu", "--updates", 4, "--tokens", 425, "--processes", processes)
        tiny = [
            option
            for k, option in enumerate(TINY)
            if not {"--max-tokens", "--update-freq"} & {option, TINY[k - 1]}
        ]
        experiment.start("train", "sequence", *common, "--", *tiny, "--dropout", 0)
        found.append(parameters(experiment, "sequence.demo"))
    for name, parameter in found[0].items():
        if not name.endswith("k_proj.bias"):  # it cannot change anything: its gradient is noise
            torch.testing.assert_close(parameter, found[1][name], rtol=1e-2, atol=1e-3, msg=name)
    for processes in (2, 1):  # another model is translated; logs of more shards must not count
        evaluating = ("--cpu", "--last", 3 - processes, "--examples", 0, "--processes", processes)
        experiment.start("evaluate", "sequence", *evaluating)
        assert len(list(experiment.work.glob("runs/*/*.shard*"))) == processes
        translated = experiment.result("sequence.demo", "test_2016_flickr")["speed"]["translation"]
        assert translated["sentences"] == len(lines_of(small.work / "raw/test_2016_flickr.en"))


def kill_when(experiment: Experiment, condition, script: str, *arguments, alone=False) -> None:
    """Start it, and kill it, alone or with its group, as soon as the condition holds."""
    command = experiment.command(script, *arguments)
    process = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, "VIRTUAL_ENV": sys.prefix, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, "ended before"
        assert time.monotonic() < end
        time.sleep(0.01)
    (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
    process.wait()


# What is shown, refused, worked out.


def shown(work: Path, recipe: str, step: str, *arguments) -> str:
    code, printed, _ = in_process(step, recipe, *arguments, "--dry-run", "--work", work)
    assert code == 0
    return printed


@pytest.mark.parametrize(
    ("machines", "tokens", "batch"),
    [
        (("--gpus", 1), 4096, (4096, 8)),
        (("--gpus", 2), 4096, (4096, 4)),
        (("--gpus", 8), 4096, (4096, 1)),
        (("--gpus", 3), 4096, (3640, 3)),
        (("--gpus", 8, "--nodes", 2, "--rendezvous", "host:1"), 4096, (2048, 1)),
        (("--gpus", 1), 40000, (32768, 1)),
        (("--cpu",), 4096, (4096, 8)),
        (("--cpu", "--processes", 2), 1024, (1024, 16)),
    ],
)
def test_the_batch_stays_the_published_one(machines, tokens, batch, tmp_path):
    printed = shown(tmp_path, "wmt14_en_de", "train", "csan_2d", *machines, "--tokens", tokens)
    found = re.search(r"--max-tokens (\d+) --update-freq (\d+)", printed)
    assert tuple(map(int, found.groups())) == batch
    size = re.search(r"--distributed-world-size (\d+)", printed)
    assert int(size[1]) * batch[0] * batch[1] in range(32768 - 32, 32769)


def test_several_machines(tmp_path):
    """Which is the first may be left to torch."""
    options = ("csan_2d", "--gpus", 8, "--nodes", 2, "--rendezvous", "host:1")
    printed = shown(tmp_path, "wmt14_en_de", "train", *options, "--node-rank", 1)
    assert "--nnodes 2 --node_rank 1 --master_addr host --master_port 1 -m" in printed
    printed = shown(tmp_path, "wmt14_en_de", "train", *options)
    assert "--nnodes 2 --rdzv_backend c10d --rdzv_endpoint host:1" in printed
    assert "--distributed-world-size 16" in printed


def test_logs_of_all_machines_are_read(tmp_path):
    training = shown(tmp_path, "wmt14_en_de", "train", "csan_2d", "--gpus", 1)
    folder = Path(re.search(r"--save-dir (\S+)", training)[1])
    folder.mkdir(parents=True)
    for name in ("train.log", "train.n2.log"):
        (folder / name).touch()
    printed = shown(tmp_path, "wmt14_en_de", "evaluate", "csan_2d", "--gpus", 1)
    assert f"--train-log {folder}/train.log {folder}/train.n2.log " in printed + " "


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_step_can_be_shown(recipe, tmp_path):
    """Nothing is made but empty folders."""
    for script, arguments in {
        "prepare": ("--from", tmp_path),
        "train": ("sequence", "--cpu"),
        "evaluate": ("sequence", "--gpus", 2),
    }.items():
        assert "python" in shown(tmp_path / "work", recipe, script, *arguments)
    assert [path for path in (tmp_path / "work").rglob("*") if path.is_file()] == []


def test_a_sweep_trains_each_window(tmp_path):
    printed = shown(tmp_path, "wmt14_en_de", "sweep", "--gpus", 8)
    for window in ("size=3", "size=19", "size=11, across=7"):
        assert f"--encoder-attention 'window({window})@0-2'" in printed
    # nine runs share eight GPUs, so each translates on one of them
    assert printed.count("--gen-subset valid --path") == 9
    assert {f"CUDA_VISIBLE_DEVICES={k} " in printed for k in range(8)} == {True}
