"""Recipes on a real Slurm of two nodes: prepare.sh, and train.sbatch."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.commands import PATIENCE, ROOT
from support.experiments import PREPARING, TINY, Experiment, copy_of, prepared, write_corpus
from support.raw_corpus import Corpus, contents
from support.slurm import Slurm

pytestmark = pytest.mark.long
RECIPE = "multi30k_en_de"
SCRIPT = "recipes/train.sbatch"
UPDATES = 80
EXACT = [*TINY, "--dropout", 0]


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Experiment:
    """Data that were prepared on this machine, of trees made elsewhere."""
    folder = tmp_path_factory.mktemp("small")
    return prepared(Corpus(folder / "raw-corpus", Path("none")), RECIPE, folder)


@pytest.fixture(scope="session")
def unbroken(small, tmp_path_factory) -> dict[str, torch.Tensor]:
    """Return the parameters of a training on this machine that nobody interrupts."""
    experiment = copy_of(small, tmp_path_factory.mktemp("unbroken"))
    experiment.start("train", "sequence", "--cpu", "--updates", UPDATES, "--", *EXACT)
    return parameters(experiment)


def parameters(experiment: Experiment, seed: int = 1) -> dict[str, torch.Tensor]:
    [folder] = (experiment.work / "runs").glob(f"sequence.demo.seed{seed}.*")
    return torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"]


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


class Job:
    """A training that was submitted."""

    def __init__(self, slurm: Slurm, small: Experiment, folder: Path, *options, updates=UPDATES):
        folder.mkdir()
        self.slurm, self.experiment = slurm, copy_of(small, folder)
        self.log = folder / "job.log"
        training = [RECIPE, "sequence", "--cpu", "--work", self.experiment.work]
        training += ["--updates", updates, "--", *EXACT]
        self.command = ["--output", self.log, *options, ROOT / SCRIPT, *training]
        self.number = ""

    def submit(self) -> "Job":
        self.number = self.slurm.sbatch(*self.command, env={"VIRTUAL_ENV": sys.prefix})
        return self

    def wait_until_it_trains(self) -> None:
        """Wait until the job has saved something and goes on."""
        runs = self.experiment.work / "runs"
        self.slurm.wait_until(lambda: any(runs.glob("sequence.demo.*/checkpoint_last.pt")))

    def goes_on(self) -> None:
        """Check that the job waits in the queue again, and let it run to its end."""
        self.slurm.begin_soon(self.number)
        assert self.slurm.state_at_the_end(self.number) == "COMPLETED", self.log.read_text()[-2000:]
        [log] = self.experiment.work.glob("runs/sequence.demo.*/train.log")
        assert "Loaded checkpoint" in log.read_text()


def test_pre_empted_with_a_time_of_grace(slurm, small, unbroken, tmp_path):
    """Whether Slurm would queue the job again by itself or cancel it."""
    jobs = [
        Job(slurm, small, tmp_path / partition, "-p", partition, "-w", node).submit()
        for partition, node in (("requeued", "n1"), ("cancelled", "n2"))
    ]
    for job in jobs:
        job.wait_until_it_trains()
    slurm.take_nodes("--nodes=2")
    for job in jobs:
        job.goes_on()
        assert_equal(parameters(job.experiment), unbroken)


def test_queued_again_by_a_signal(slurm, small, unbroken, tmp_path):
    job = Job(slurm, small, tmp_path / "job").submit()
    job.wait_until_it_trains()
    slurm.run("scancel", "--batch", "--signal=USR1", job.number)
    job.goes_on()
    assert_equal(parameters(job.experiment), unbroken)


def test_queued_again_before_the_time_is_up(slurm, small, tmp_path):
    options = ("--time=1", "--signal=B:USR1@45")
    job = Job(slurm, small, tmp_path / "job", *options, updates=100000).submit()
    slurm.wait_until(lambda: slurm.show(job.number)["Restarts"] == "1")
    slurm.wait_until(lambda: slurm.state(job.number) == "PENDING")


def test_a_training_that_fails_is_not_queued_again(slurm, small, tmp_path):
    """Neither is one that was pre-empted once."""
    job = Job(slurm, small, tmp_path / "job", "-p", "requeued", "-w", "n1").submit()
    job.wait_until_it_trains()
    slurm.take_nodes("-w", "n1")
    slurm.begin_soon(job.number)
    (job.experiment.work / "data").unlink()
    assert slurm.state_at_the_end(job.number) == "FAILED"
    assert slurm.show(job.number)["Restarts"] == "1"


def test_two_nodes(slurm, small, tmp_path):
    """Submitted from another folder, and from within a job with other memory; interrupted, it ends
    as an unbroken one. The lines of the training stand in train.log: the first node has rank 0."""
    whole, broken = (
        Job(slurm, small, tmp_path / name, "--nodes=2", updates=40) for name in ("whole", "broken")
    )
    inherited = {"VIRTUAL_ENV": sys.prefix, "HOSTNAME": "login", "SLURM_CPUS_PER_TASK": "7"}
    for job in (whole, broken):
        submit = ["salloc", "--quiet", "--mem=1500", "sbatch", "--parsable", *job.command]
        job.number = slurm.run(*submit, cwd=tmp_path, env=inherited).split()[-1]
        if job is broken:
            job.wait_until_it_trains()
            slurm.run("scancel", "--signal=USR1", job.number)  # to the training, not the script
            job.goes_on()
        assert slurm.state_at_the_end(job.number) == "COMPLETED", job.log.read_text()[-2000:]
        [folder] = job.experiment.runs("sequence.demo")
        logs = {path.name: path.read_text() for path in folder.glob("*.log")}
        assert sorted(logs) == ["train.log", "train.n2.log"]
        assert "num_updates 40" in logs["train.log"] and "num_updates" not in logs["train.n2.log"]
    assert_equal(parameters(broken.experiment), parameters(whole.experiment))


def test_an_array_trains_with_several_seeds(slurm, small, unbroken, tmp_path):
    job = Job(slurm, small, tmp_path / "job", "--array=1-2", updates=UPDATES).submit()
    for seed in (1, 2):
        done = f"sequence.demo.seed{seed}.*/finished"
        slurm.wait_until(lambda done=done: any(job.experiment.work.glob(f"runs/{done}")))
    assert_equal(parameters(job.experiment), unbroken)
    other = parameters(job.experiment, seed=2)
    assert any(not torch.equal(other[name], unbroken[name]) for name in unbroken)


@pytest.mark.parametrize("arguments", [(), (RECIPE,), ("no_such", "sequence")])
def test_a_job_without_what_it_needs(slurm, tmp_path, arguments):
    log = tmp_path / "log"
    job = slurm.sbatch("--output", log, ROOT / SCRIPT, *arguments, cwd=tmp_path)
    assert slurm.state_at_the_end(job) == "FAILED"
    [line] = log.read_text().splitlines()
    assert line.startswith(f"train.sbatch: '{' '.join(arguments)}': name a recipe and a model")


def test_preparing_is_interrupted_while_it_waits(slurm, small, tmp_path):
    """The same command waits for the jobs that it submitted; the data are those of this machine."""
    corpus = Corpus(tmp_path / "raw-corpus", Path("none"))
    write_corpus(corpus, RECIPE, tmp_path / "from")
    work = tmp_path / "work"
    (work / "raw").mkdir(parents=True)
    for path in (small.work / "raw").glob("*.conllu"):
        (work / "raw" / path.name).write_bytes(path.read_bytes())
    script = ROOT / "recipes/prepare.sh"
    command = ["env", f"VIRTUAL_ENV={sys.prefix}", script, RECIPE, "--from", tmp_path / "from"]
    command += ["--work", work, "--any-size", "--", *PREPARING, "--executor", "slurm"]
    command += ["--memory-gb", 1]
    slurm.run("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")
    killed = slurm.start_in_background(*command)
    read_until(killed, "waiting for them; if this is interrupted")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    again = slurm.start_in_background(*command)
    read_until(again, "waiting for the Slurm jobs of an earlier run; 0 of 1 shard")
    slurm.run("scontrol", "update", "nodename=n1,n2", "state=resume")
    printed, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, printed
    assert printed.count("submitted: ") == 2  # for validation and test
    assert contents(work / "data") == contents(small.work / "data")


def read_until(process: subprocess.Popen, text: str) -> None:
    line = "something"
    while line and text not in line:
        line = process.stdout.readline()
    assert line, f"it ended without '{text}'"
