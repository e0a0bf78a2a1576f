"""A recipe that is started again while a training of it still runs, or after it was killed."""

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.experiments.commands import CommandFailed, Shell
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.runs import Run, RunRecord
from fairseq_posattn.experiments.training import train_once
from fairseq_posattn.files.progress import ProgressDisplay

HOLD = """
import sys, time
from pathlib import Path
from fairseq_posattn.files.lock import TRAINING, hold_until_the_end
hold_until_the_end(Path(sys.argv[1], TRAINING), "process 7 on that machine")
print("held", flush=True)
sys.stdin.read()
"""
ONCE = "import sys; file = open(sys.argv[1], 'x')"  # a second time it fails


@pytest.fixture
def display() -> ProgressDisplay:
    return ProgressDisplay()


@pytest.fixture
def run(tmp_path) -> Run:
    run = Run(tmp_path, RunRecord("sequence", "demo", 1, 150, "own", [], {}))
    run.folder.mkdir(parents=True, exist_ok=True)
    return run


def train(display: ProgressDisplay, run: Run, shell: Shell | None = None) -> None:
    command = [sys.executable, "-c", ONCE, run.folder / "trained"]
    experiment = SimpleNamespace(shell=shell or Shell(), progress=display)
    train_once(experiment, run, lambda: command, Machine(cpu=True), Share())


def wait_for(text: str, capsys) -> None:
    printed = ""
    while text not in printed:
        printed += capsys.readouterr().err
        time.sleep(0.01)


@pytest.fixture
def holder(run):
    """A training of another process, which ends when its standard input does."""
    command = [sys.executable, "-c", HOLD, run.folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        yield process


def test_a_training_that_still_runs_is_waited_for(display, run, holder, capsys):
    thread = threading.Thread(target=train, args=(display, run))
    thread.start()
    wait_for(f"{run.folder}: process 7 on that machine is still training here; waiting", capsys)
    assert not (run.folder / "trained").exists()
    holder.stdin.close()
    thread.join()
    assert (run.folder / "trained").exists() and run.is_finished


def test_a_signal_ends_the_waiting(display, run, holder):
    shell = Shell()
    shell.stopped.set()
    with pytest.raises(CommandFailed, match="the recipe was stopped by a signal"):
        train(display, run, shell)


def test_two_at_once_train_once(display, run, capsys):
    threads = [threading.Thread(target=train, args=(display, run)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    printed = capsys.readouterr().err
    assert printed.count("starts training") == 1
    assert printed.count("already trained (") == 1


def test_where_a_training_continues_is_told(display, run, capsys):
    """The save of checkpoint_last.pt may have been interrupted."""
    for name, update in (("checkpoint_last.pt", 300), ("checkpoint_1_381.pt", 381)):
        state = {"optimizer_history": [{"num_updates": update}]}
        torch.save(state, run.folder / name)
    train(display, run)
    assert f"continues from update 381 in {run.folder}" in capsys.readouterr().err
