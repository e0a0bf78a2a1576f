"""posattn generate and its kin keep in their log what the next command of the README reads."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_posattn.core.attention import MECHANISMS
from support.commands import PLUGIN, ROOT

CLI = PLUGIN / "cli"


def script(name: str, *arguments, out: Path | None = None) -> str:
    """Run a subcommand of the installed command, whose stdout goes to a file; its stdout."""
    command = shutil.which("posattn", path=os.path.dirname(sys.executable))
    if command is None:
        pytest.skip("the package is not installed")
    return run(command, name, *arguments, out=out)


def run(*command, out: Path | None = None) -> str:
    env = {**os.environ, "PYTHONPATH": str(PLUGIN.parent), "OMP_NUM_THREADS": "1"}
    parts = [str(part) for part in command]
    result = subprocess.run(parts, capture_output=True, text=True, env=env, cwd=ROOT)
    assert result.returncode == 0, result.stderr[-3000:]
    if out is not None:
        out.write_text(result.stdout)
    return result.stdout


OPTIONS = ["--task", "structured_translation", "-s", "src", "-t", "tgt", "--cpu"]
OPTIONS += ["--batch-size", "16", "--beam", "2"]


@pytest.mark.long(ci=["fairseq-train"])
@pytest.mark.parametrize("program", ["posattn", "fairseq-train"])
def test_a_training_begins_without_warnings_of_hydra(program, tmp_path):
    """fairseq uses deprecated names of hydra; users cannot change that."""
    command = [shutil.which(program, path=os.path.dirname(sys.executable))]
    command += ["train", tmp_path] if program == "posattn" else [tmp_path]
    command += ["--user-dir", PLUGIN, *OPTIONS[:-2]]
    command += ["--arch", "posattn_sequence", "--optimizer", "adam"]
    env = {**os.environ, "PYTHONPATH": str(PLUGIN.parent), "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONWARNINGS", None)
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    assert "hydra" not in found.stderr and "dict.src.txt" in found.stderr, found.stderr


@pytest.mark.long
def test_from_generate_to_a_score_as_in_the_readme(tree_model, toy_data, tmp_path):
    log, text, found = (tmp_path / name for name in ("generate.log", "hyp.tgt", "scores.json"))
    script("generate", toy_data, "--path", tree_model, *OPTIONS, "--gen-subset", "test", out=log)
    assert log.read_text().count("Translated 60 sentences") == 1
    run(sys.executable, "-m", "fairseq_posattn.cli.translations", toy_data, log, "--out", text)
    options = ["--references", toy_data.parent / "raw/test.tgt", "--target-lang", "en"]
    options += ["--name", "tree", "--test", "toy", "--generate-log", log, "--json", found]
    script("score", text, *options)
    assert json.loads(found.read_text())["speed"]["translation"]["sentences"] == 60


@pytest.mark.long
def test_a_file_of_results_has_the_line_too(tree_model, toy_data, tmp_path):
    options = [toy_data, "--path", tree_model, *OPTIONS, "--results-path", tmp_path / "results"]
    assert "Translated" not in script("generate", *options)
    written = (tmp_path / "results/generate-test.txt").read_text()
    assert written.count("Translated 60 sentences") == 1 and written.count("\nH-") == 60


@pytest.mark.long
def test_a_validation_prints_its_result(tree_model, toy_data):
    assert "| loss " in script("validate", toy_data, "--path", tree_model, *OPTIONS[:-2])


SPAWNING = """
import sys
import torch.multiprocessing

from fairseq_posattn.cli import main

def of_one_gpu(rank, folder):
    open(f"{folder}/{rank}", "w").write(str("fairseq_posattn.plugin" in sys.modules))

def train():
    torch.multiprocessing.spawn(of_one_gpu, (sys.argv[1],), nprocs=2)

if __name__ == "__main__":
    sys.argv.insert(1, "train")
    main.function_of = lambda name: train
    main.main()
"""


@pytest.mark.long
def test_the_processes_that_it_starts_have_the_plugin(tmp_path):
    """fairseq starts one for each GPU; each of them imports the program anew."""
    (tmp_path / "program.py").write_text(SPAWNING)
    run(sys.executable, tmp_path / "program.py", tmp_path)
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["True", "True"]


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize(
    "name", sorted({path.stem for path in CLI.glob("[a-z]*.py")} - {"fairseq_programs", "main"})
)
def test_help_names_the_installed_command(name, monkeypatch, capsys):
    """It does so where `python -m` starts the command, too."""
    monkeypatch.setattr(sys, "argv", ["python -m", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"fairseq_posattn.cli.{name}", run_name="__main__", alter_sys=True)
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(f"usage: posattn {name.replace('_', '-')} ")


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("program", ["train", "generate", "interactive"])
def test_help_has_the_options_of_the_plugin(program):
    """They stand first, with what `help` prints of each, and no line of a log before them."""
    code = f"from fairseq_posattn.cli.fairseq_programs import {program}; {program}()"
    shown = run(sys.executable, "-c", code, "--help")
    assert shown.startswith(f"fairseq-{program} with the plug-in.")
    own, _, of_fairseq = shown.partition("fairseq's options of all models and tasks:")
    assert "--tree-provider" in own and "--batch-size" in of_fairseq
    assert "INFO" not in shown
    for name, cls in MECHANISMS.items():
        assert (f"\n\n{name}\n" in own) == (program == "train")
        in_cross = own.partition("Mechanisms for --cross-attention (")[2].split()
        assert (name in in_cross) == (program == "train" and cls.cross_safe)
    options = {"--encoder-attention", "--cross-attention", "--tree-loss", "--fast-dropout"}
    assert {option for option in options if f"  {option}" in own} == (
        options if program == "train" else set()
    )
