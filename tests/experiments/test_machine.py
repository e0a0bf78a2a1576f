"""How runs share a machine, and what is done side by side."""

import os
import threading
import time

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments import machine as machines
from fairseq_posattn.experiments.machine import Machine, Share, run_side_by_side, shares
from support.experiments import in_process


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(machines, "visible_gpus", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("runs", "at_once", "gpus", "each", "side"),
    [
        (1, None, None, 4, 1),  # a single run has the whole machine
        (2, None, None, 2, 2),
        (3, None, None, 1, 3),
        (9, None, None, 1, 4),
        (9, 2, None, 2, 2),
        (9, 1, None, 4, 1),
        (2, None, 1, 1, 1),
        (9, None, 3, 1, 3),
        (2, None, 3, 1, 2),
    ],
)
def test_runs_share_the_gpus(four_gpus, runs, at_once, gpus, each, side):
    machine, parts = shares(Machine(gpus=gpus, at_once=at_once), runs)
    assert (machine.each(), len(parts)) == (each, side)
    used = [gpu for part in parts for gpu in part.gpus]
    assert len(used) == len(set(used)) and (runs == 1 or len(used) == each * side)


@pytest.mark.parametrize(("options", "each"), [([], 1), (["--gpus", 4], 2)])
def test_a_small_model_uses_one_gpu_unless_more_are_given(four_gpus, options, each, tmp_path):
    words = ["train", "lookup", "none", "--seeds", "1-2", "--dry-run", "--work", tmp_path]
    printed = in_process(*words, *options)[1]
    assert printed.count(f"--distributed-world-size {each} ") == 2


def test_more_runs_than_gpus_at_once(four_gpus):
    """They share the GPUs if the user asks for it; small models leave most of one idle."""
    machine, parts = shares(Machine(at_once=6), 9)
    assert machine.each() == 1
    assert [part.gpus for part in parts] == [("0",), ("1",), ("2",), ("3",), ("0",), ("1",)]
    assert len(shares(Machine(gpus=1, at_once=8), 30)[1]) == 8


def test_only_visible_gpus_are_shared_out(four_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    _, parts = shares(Machine(), 2)
    assert [part.environment()["CUDA_VISIBLE_DEVICES"] for part in parts] == ["5", "7"]


def test_runs_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    _, parts = shares(Machine(cpu=True, processes=2), 10)
    assert parts == [Share(threads=1)] * 4
    _, parts = shares(Machine(cpu=True, at_once=2), 3)
    assert [part.environment() for part in parts] == [{"OMP_NUM_THREADS": "4"}] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert parts[0].environment() == {}


@pytest.mark.parametrize("runs", [1, 3])
def test_without_a_gpu(monkeypatch, runs):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(InputError, match="no GPU is visible; add --cpu"):
        shares(Machine(), runs)[0].each()
    assert Machine(gpus=4, dry_run=True).each() == 4


@pytest.mark.parametrize("runs", [1, 3])
def test_more_gpus_than_there_are(four_gpus, runs):
    with pytest.raises(InputError, match="--gpus is 8, but only 4 GPUs are visible; use fewer"):
        shares(Machine(gpus=8), runs)[0].each()


def test_jobs_side_by_side():
    """Two shares do two jobs at once, never more, and each share has one job at a time."""
    at_work, most, lock = [], [], threading.Lock()
    both = threading.Barrier(2)

    def job(share: Share) -> None:
        with lock:
            assert share not in at_work
            at_work.append(share)
            most.append(len(at_work))
        both.wait(30)
        with lock:
            at_work.remove(share)

    run_side_by_side([job] * 6, [Share(("0",)), Share(("1",))])
    assert max(most) == 2 and len(most) == 6


def test_after_a_failure_nothing_new_begins():
    done = []

    def fails(share: Share) -> None:
        raise InputError("the disk is full")

    def works(share: Share) -> None:
        time.sleep(0.2)
        done.append(share)

    with pytest.raises(InputError, match="the disk is full"):
        run_side_by_side([works, fails, *[works] * 50], [Share(("0",)), Share(("1",))])
    assert 1 <= len(done) <= 10
