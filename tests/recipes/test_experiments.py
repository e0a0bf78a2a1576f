"""The recipes of published experiments, run from small files to scores, as a user runs them."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.report import report
from fairseq_posattn.evaluation.report.systems import read_systems
from support import warm
from support.commands import PATIENCE, ROOT, run
from support.experiments import (
    PREPARING,
    RECIPES,
    TINY,
    Experiment,
    copy_of,
    languages,
    prepared,
    tidy,
    write_corpus,
)
from support.files import lines_of, write

pytest.importorskip("stanza")
sys.path.insert(0, str(ROOT / "recipes"))


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
        found = experiment.result(f"structural.{size}.{test}")
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
    path = experiment.work / f"runs/{name}/checkpoint_last.pt"
    return torch.load(path, weights_only=False)["model"]


@pytest.mark.long
def test_a_table(small, tmp_path):
    """All rows, with significance and the report; a second time nothing is trained again."""
    experiment = copy_of(small, tmp_path)
    options = ("--cpu", "--size", "demo", "--updates", 4, "--last", 1, "--", *TINY)
    experiment.start("table", *options)
    table = (experiment.work / "table.md").read_text().splitlines()
    assert [line.split("|")[1].strip(" `") for line in table[2:8]] == [
        *("sequence", "csan_2d", "structural", "sequence", "csan_2d", "structural")
    ]
    for name in ("sequence", "csan_2d", "structural"):
        assert (
            f"{experiment.score(f'{name}.demo.test_2016_flickr'):.2f}"
            in table[2 + (["sequence", "csan_2d", "structural"].index(name))]
        )
        baseline = experiment.result(f"{name}.demo.test_2016_flickr").get("baseline")
        assert (baseline is None) == (name == "sequence")
    assert "structural.demo" in (experiment.work / "report.html").read_text()
    checkpoints = sorted((experiment.work / "runs").glob("*/checkpoint_last.pt"))
    before = [path.stat().st_mtime_ns for path in checkpoints]
    printed = experiment.start("table", *options).stdout
    assert printed.count("the training has ended before") == 3
    assert [path.stat().st_mtime_ns for path in checkpoints] == before


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


@pytest.mark.long
def test_interrupted_training_and_evaluation(small, tmp_path):
    """Killed in the middle, the same commands give what an undisturbed run gives."""
    whole, broken = (copy_of(small, make(tmp_path / name)) for name in ("whole", "broken"))
    training = ("train", "sequence", "--cpu", "--updates", 12, "--", *TINY, "--dropout", 0)
    whole.start(*training)
    kill_when(broken, lambda: list(broken.work.glob("runs/*/checkpoint_*_6.pt")), *training)
    assert not (broken.work / "runs/sequence.demo/finished").exists()
    refused = broken.start("evaluate", "sequence", "--cpu", check=False)
    assert refused.returncode == 1 and "the training has not ended" in refused.stdout
    broken.start(*training)
    evaluating = ("evaluate", "sequence", "--cpu", "--last", 2)
    whole.start(*evaluating)
    kill_when(broken, lambda: list(broken.work.glob("runs/*/*.shard0")), *evaluating)
    broken.start(*evaluating)
    name = "sequence.demo.test_2016_flickr"
    assert whole.result(name)["scores"] == broken.result(name)["scores"]
    for parameter, other in zip(
        parameters(whole, "sequence.demo").values(),
        parameters(broken, "sequence.demo").values(),
        strict=True,
    ):
        assert torch.equal(parameter, other)


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def kill_when(experiment: Experiment, condition, script: str, *arguments) -> None:
    """Start it, and kill it with all its processes as soon as the condition holds."""
    program = ROOT / "recipes" / experiment.recipe / f"{script}.sh"
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    command = [program, *arguments[:cut], "--work", experiment.work, *arguments[cut:]]
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
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# What is shown, refused, worked out.


def shown(recipe: str, script: str, *arguments, check=True, work="/nowhere/work"):
    program = ROOT / "recipes" / recipe / f"{script}.sh"
    env = {
        **warm.variables(),
        "PATH": f"{warm.home()}/bin:{os.environ['PATH']}",
    }
    return run(program, *arguments, "--dry-run", "--work", work, env=env, check=check)


@pytest.mark.long(but=["machines0-4096-batch0", "machines3-4096-batch3"])
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
    printed = shown(
        "wmt14_en_de", "train", "csan_2d", *machines, "--tokens", tokens, work=tmp_path
    ).stdout
    found = re.search(r"--max-tokens (\d+) --update-freq (\d+)", printed)
    assert tuple(map(int, found.groups())) == batch
    size = re.search(r"--distributed-world-size (\d+)", printed)
    assert int(size[1]) * batch[0] * batch[1] in range(32768 - 32, 32769)


@pytest.mark.long
def test_several_machines(tmp_path):
    """Which is the first may be left to torch."""
    options = ("csan_2d", "--gpus", 8, "--nodes", 2, "--rendezvous", "host:1")
    printed = shown("wmt14_en_de", "train", *options, "--node-rank", 1, work=tmp_path).stdout
    assert "--nnodes 2 --node_rank 1 --master_addr host --master_port 1 -m" in printed
    printed = shown("wmt14_en_de", "train", *options, work=tmp_path).stdout
    assert "--nnodes 2 --rdzv_backend c10d --rdzv_endpoint host:1" in printed
    assert "--distributed-world-size 16" in printed


def test_logs_of_all_machines_are_read(tmp_path):
    folder = tmp_path / "runs/csan_2d.base"
    folder.mkdir(parents=True)
    for name in ("train.log", "train.n2.log"):
        (folder / name).touch()
    printed = shown("wmt14_en_de", "evaluate", "csan_2d", "--gpus", 1, work=tmp_path).stdout
    assert f"--train-log {folder}/train.log {folder}/train.n2.log --generate-log" in printed


def test_models_of_the_tables_are_presets(tmp_path):
    presets = {path.stem for path in (ROOT / "fairseq_posattn/config/model").glob("*.yaml")}
    for table in ROOT.glob("recipes/*_*_*/models.tsv"):
        for row in lines_of(table)[1:]:
            model, size, *_ = row.split("\t")
            assert model in presets
            printed = shown(
                table.parent.name, "train", model, "--size", size, "--cpu", work=tmp_path
            )
            assert f"--arch posattn_{model}_" in printed.stdout


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_step_can_be_shown(recipe, tmp_path):
    """Nothing is made but empty folders."""
    for script, arguments in {
        "prepare": ("--from", tmp_path),
        "train": ("sequence", "--cpu"),
        "evaluate": ("sequence", "--gpus", 2),
    }.items():
        assert "python" in shown(recipe, script, *arguments, work=tmp_path / "work").stdout
    assert [path for path in (tmp_path / "work").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("train", ("nix", "--cpu"), "there is no model 'nix'; choose one of: "),
        (
            "train",
            ("sequence", "--size", "vast", "--cpu"),
            "there is no size 'vast'; choose one of: base big",
        ),
        ("train", ("sequence", "--cpu"), "there are no data; start "),
        ("train", ("sequence", "--gpus", 8, "--nodes", 2), "--nodes needs --rendezvous HOST:PORT"),
        ("train", (), "Trains a model: "),
        ("evaluate", ("sequence", "--cpu"), "the training has not ended; start "),
        ("evaluate", ("sequence", "--colour"), "unknown option: --colour"),
        ("prepare", ("--from", "/nowhere"), "/nowhere: there is no such folder"),
    ],
)
def test_errors(script, arguments, message, tmp_path):
    result = Experiment("wmt14_en_de", tmp_path).start(script, *arguments, check=False)
    assert result.returncode in (1, 2)
    assert message in result.stdout


def test_a_corpus_that_cannot_be_downloaded(tmp_path):
    result = Experiment("nist_zh_en", tmp_path).start("prepare", check=False)
    assert result.returncode == 1
    assert "name its folder with --from DIR" in result.stdout


def test_a_corpus_of_another_size(corpus, tmp_path):
    write_corpus(corpus, "multi30k_en_de", tmp_path / "from")
    experiment = Experiment("multi30k_en_de", tmp_path / "work")
    result = experiment.start("prepare", "--from", tmp_path / "from", check=False)
    assert result.returncode == 1
    assert "raw/train.en: there are 160 sentences, expected 29,000" in result.stdout


def test_a_run_is_for_one_training(tmp_path):
    """Its checkpoints would not fit another architecture, or other data."""
    experiment = Experiment("multi30k_en_de", tmp_path)
    folder = tmp_path / "runs/sequence.demo"
    folder.mkdir(parents=True)
    (folder / "made_from.json").write_text(
        json.dumps({"options": {"training": "sequence demo 1 "}, "files": {}})
    )
    (folder / "checkpoint_last.pt").touch()
    other = ("--cpu", "--", "--encoder-layers", 1)
    result = experiment.start("train", "sequence", *other, check=False)
    assert result.returncode == 1
    assert "was 'sequence demo 1 ', is now 'sequence demo 1 --encoder-layers 1'" in result.stdout
    assert "name another run with --run" in result.stdout
    (tmp_path / "data").mkdir()
    (tmp_path / "data/dict.en.txt").write_text("the 1\n")
    result = experiment.start("train", "sequence", "--cpu", check=False)
    assert result.returncode == 1
    assert "the file 'dict.en.txt' has changed; name another run" in result.stdout


# Tables and plots of results.


def write_result(folder: Path, name: str, bleu: float, metric: str = "BLEU", **more) -> None:
    folder.mkdir(exist_ok=True)
    about = {"scores": {metric: {"score": bleu, "signature": "s"}}, **more}
    (folder / f"{name}.json").write_text(json.dumps(about))


def test_a_table_has_what_is_there_beside_what_is_published(tmp_path):
    from table import markdown, rows

    write(
        tmp_path / "models.tsv",
        ["# model\tsize\ta\tb\tpaper", "x\tbase\t1.5\t-\tP 2019", "y\tbase\t2\t3\tP 2019"],
    )
    compared = {"scores": {"NIST BLEU": {"mark": "⇑"}}}
    training = {"parameters": 65_400_000, "words_per_second": 1234.4}
    write_result(tmp_path / "r", "y.base.b", 27.345, "NIST BLEU", baseline=compared)
    write_result(tmp_path / "r", "y.base.a", 1, training=training)
    head, _, x, y, _, signatures = markdown(list(rows(tmp_path / "models.tsv")), tmp_path / "r")
    assert head.startswith("| model | size | a BLEU | tokenised | published | b BLEU |")
    assert x == "| `x` | base | – | – | 1.5 | – | – | – | – | – | P 2019 |"
    assert y == "| `y` | base | 1.00 | – | 2 | 27.34⇑ | – | 3 | 65.4 | 1,234 | P 2019 |"
    assert signatures.startswith("BLEU: `s`; NIST BLEU: `s`")


HEADER = "# model\tsize\ta\tpaper"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "models.tsv: the file is empty"),
        ([HEADER], "models.tsv:1: expected '# model, size, TEST"),
        (["model\tsize", "x\tbase"], "models.tsv:1: expected '# model, size, TEST"),
        ([HEADER, "x\tbase\t1"], "models.tsv:2: 4 columns are expected, but this line has 3"),
        ([HEADER, "../x\tbase\t1\tP"], "models.tsv:2: expected a model and a size, found '../x'"),
        ([HEADER, "x\t\t1\tP"], "models.tsv:2: expected a model and a size, found 'x' and ''"),
    ],
)
def test_a_damaged_table_of_models(tmp_path, lines, message):
    from table import rows

    write(tmp_path / "models.tsv", lines)
    with pytest.raises(InputError, match=message):
        rows(str(tmp_path / "models.tsv"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("[]", "expected an object"),
        ("[" * 100_000, "damaged"),
        ('{"scores": {}}', "has no BLEU"),
        ('{"scores": {"BLEU": {"score": 1}}}', "scores.BLEU.signature is missing"),
        ('{"scores": {"BLEU": {"score": "1", "signature": ""}}}', 'is "1", expected a number'),
        (
            '{"scores": {"BLEU": {"score": 1e999, "signature": ""}}}',
            "is Infinity, expected a number",
        ),
    ],
)
def test_damaged_results(tmp_path, text, message):
    from sweep import bleu_of
    from table import Row, result

    path = tmp_path / "x.base.a.json"
    path.write_text(text)
    for read in (lambda: result(tmp_path, Row("x", "base", {}, ""), "a"), lambda: bleu_of(path)):
        with pytest.raises(InputError, match=rf"x.base.a.json: .*{message}"):
            read()


def test_a_sweep_is_drawn(tmp_path):
    from sweep import scores

    for name, bleu in {
        "sequence": 20,
        "window_3": 21,
        "window_11": 23,
        "window_11_across_3": 24,
    }.items():
        write_result(tmp_path / "r", f"{name}.base.dev", bleu)
    found = scores(tmp_path / "r", "base", "dev")
    assert found == {(3, 1): 21, (11, 1): 23, (11, 3): 24}
    script = (
        sys.executable,
        ROOT / "recipes/sweep.py",
        "--results",
        tmp_path / "r",
        "--test",
        "dev",
    )
    run(*script, "--size", "base", "--out", tmp_path / "sweep")
    assert "| 11 | 3 | 24.00 |" in (tmp_path / "sweep.md").read_text()
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    result = run(*script, "--size", "big", "--out", tmp_path / "big", check=False)
    assert result.returncode == 1 and "start sweep.sh first" in result.stdout


@pytest.mark.long
def test_a_sweep_trains_each_window(tmp_path):
    printed = shown("wmt14_en_de", "sweep", "--gpus", 8, work=tmp_path).stdout
    for window in ("size=3", "size=19", "size=11, across=7"):
        assert f"--encoder-attention window(size={window[5:]})@0-2" in printed.replace("\\", "")
    assert printed.count("--gen-subset valid") == 9 * (8 + 1)  # shards, and the examples


def test_files_of_a_corpus(tmp_path):
    from corpora import expect, take

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\r\ntwo"))
    take(str(tmp_path), "a", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"
    with pytest.raises(InputError, match=r"b: there is no such file, nor .*b\.gz"):
        take(str(tmp_path), "b", str(tmp_path / "out"))
    expect(str(tmp_path / "out"), 2, 0)
    expect(str(tmp_path / "out"), 3, 34)
    with pytest.raises(
        InputError, match="there are 2 sentences, expected 3; get the right release"
    ):
        expect(str(tmp_path / "out"), 3, 0)
