"""parse.py on clusters: Slurm with stand-ins for its commands, that run what is submitted; Ray."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import step
from fairseq_posattn.parsing import work as parts
from fairseq_posattn.parsing.parsers import ParserSettings
from parse_toys import parse_here, toy_texts

GIVEN = ParserSettings("conllu")
SHARD = 20

# As the real one, sbatch refuses options that it does not know or that lack their value; the job
# waits until FakeSlurm.run.
SBATCH = """\
import json, os, sys
from pathlib import Path

FLAGS = {"requeue", "exclusive"}
VALUES = {"account", "array", "cpus-per-task", "dependency", "error", "export", "gpus", "job-name",
          "kill-on-invalid-dep", "mem-per-cpu", "nodes", "output", "partition", "qos", "time"}
queue = Path(__file__).parent.parent / "queue"
*arguments, script = sys.argv[1:]
content = Path(script).read_text()
lines = [line for line in content.splitlines() if line.startswith("#SBATCH ")]
options = {}
for text in [line.removeprefix("#SBATCH ") for line in lines] + arguments:
    name, _, value = text.removeprefix("--").partition("=")
    if name not in FLAGS | VALUES:
        sys.exit(f"sbatch: unrecognized option '--{name}'")
    if name in VALUES and not value:
        sys.exit(f"sbatch: option '--{name}' requires an argument")
    options[name] = value
number = len(list(queue.iterdir())) + 1
job = {"options": options, "script": content, "env": dict(os.environ), "cwd": os.getcwd()}
(queue / f"{number:03d}.json").write_text(json.dumps(job))
print(f"Submitted batch job {number}")
"""
SQUEUE = """\
import sys
from pathlib import Path

number = int(sys.argv[sys.argv.index("--jobs") + 1])
if (Path(__file__).parent.parent / "forgotten").exists():
    sys.exit("slurm_load_jobs error: Invalid job id specified")
if not (Path(__file__).parent.parent / "ran" / f"{number:03d}").exists():
    print(f"  {number}  cpu  parse  PD  0:00  1  (Resources)")
"""
SRUN = """\
import os, sys

arguments = sys.argv[1:]
while arguments[0].startswith("-"):
    del arguments[: 2 if arguments[0] == "-n" else 1]
os.execvp(arguments[0], arguments)
"""
SCONTROL = """\
import sys

assert sys.argv[1:3] == ["show", "hostnames"]
print(sys.argv[3])
"""


class Job(NamedTuple):
    """What was submitted, and the exit code of each task that ran."""

    options: dict[str, str]
    script: str
    codes: dict[int, int]


class FakeSlurm:
    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "queue").mkdir()
        (folder / "ran").mkdir()
        programs = {"sbatch": SBATCH, "squeue": SQUEUE, "srun": SRUN, "scontrol": SCONTROL}
        for name, code in programs.items():
            program = folder / "bin" / name
            program.write_text(f"#!{sys.executable}\n{code}")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.environment = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        self.jobs: dict[str, Job] = {}

    def parse(self, *arguments, **kwargs) -> subprocess.CompletedProcess:
        return step("parse", *arguments, "--executor", "slurm", env=self.environment, **kwargs)

    def run(self, kill: int | None = None) -> dict[str, Job]:
        """Run what waits in the queue, one task after the other; those jobs, by their names.

        kill: an index whose tasks are killed soon after they began, as by a broken machine.
        """
        ran = {}
        for path in sorted((self.folder / "queue").iterdir()):
            if path.stem not in self.jobs:
                job = json.loads(path.read_text())
                codes = self.run_tasks(path.stem, job, kill) if self.may_run(job) else {}
                self.jobs[path.stem] = Job(job["options"], job["script"], codes)
                (self.folder / "ran" / path.stem).touch()
                name = job["options"]["job-name"]
                assert name not in ran
                ran[name] = self.jobs[path.stem]
        return ran

    def may_run(self, job: dict) -> bool:
        kind, _, number = job["options"].get("dependency", "afterany:").partition(":")
        if not number:
            return True
        before = self.jobs[f"{int(number):03d}"].codes
        return kind == "afterany" or (bool(before) and not any(before.values()))

    def run_tasks(self, number: str, job: dict, kill: int | None) -> dict[int, int]:
        first, _, last = job["options"]["array"].partition("%")[0].partition("-")
        return {
            k: self.run_task(number, k, job, k == kill) for k in range(int(first), int(last) + 1)
        }

    def run_task(self, number: str, index: int, job: dict, kill: bool) -> int:
        exported = dict(pair.split("=") for pair in job["options"]["export"].split(",")[1:])
        slurm = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_NODELIST": "localhost"}
        slurm |= {"SLURM_JOB_ID": f"{int(number)}{index}", "SLURM_ARRAY_JOB_ID": str(int(number))}
        script = self.folder / f"{number}.sh"
        script.write_text(job["script"])
        log = job["options"]["output"].replace("%A", number).replace("%a", str(index))
        with open(log, "w") as output:
            task = subprocess.Popen(
                ["bash", script],
                env=job["env"] | exported | slurm,
                cwd=job["cwd"],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if kill:
                while not os.path.getsize(log):  # the script's first words
                    time.sleep(0.001)
                os.killpg(task.pid, signal.SIGKILL)
            return task.wait()


@pytest.fixture
def slurm(tmp_path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def given(tmp_path) -> list:
    """Options for three shards of trees made elsewhere, and the result of a local run."""
    text, trees = toy_texts(tmp_path, 3 * SHARD)
    parse_here(text, tmp_path / "local.conllu", GIVEN, SHARD, trees)
    return [text, "--parser", "conllu", "--trees", trees, "--shard-lines", SHARD, "--workers", 2]


def assert_all_ended_well(ran: dict[str, Job], tasks: int) -> None:
    assert {name: job.codes for name, job in ran.items()} == {
        "parse": dict.fromkeys(range(tasks), 0),
        "parse-join": {0: 0},
    }


def test_slurm_array_and_join(stanza_models, slurm, tmp_path):
    """A text with a note, so that the last look at it is worth while."""
    text, _ = toy_texts(tmp_path, 30)
    lines = text.read_text().splitlines()
    lines[21] = "kat " * 300
    text.write_text("".join(line + "\n" for line in lines))
    settings = ParserSettings(model_dir=str(stanza_models.toy), tokenized=True)
    parse_here(text, tmp_path / "local.conllu.zst", settings, SHARD)
    out = tmp_path / "out.conllu.zst"
    options = [text, "--model-dir", stanza_models.toy, "--tokenized", "--shard-lines", SHARD]
    printed = slurm.parse(*options, "--out", out).stdout
    assert "submitted: 2 of 2 shards" in printed
    assert not out.exists()
    assert_all_ended_well(slurm.run(), 2)
    assert out.read_bytes() == (tmp_path / "local.conllu.zst").read_bytes()
    printed = slurm.parse(*options, "--out", out).stdout  # looks, reports, tidies up
    assert f"{text.name}:22: 300 words, above --max-words: parsed in 2 parts" in printed
    assert "30 lines, 30 trees, checked" in printed
    assert slurm.run() == {}
    assert out.read_bytes() == (tmp_path / "local.conllu.zst").read_bytes()
    assert not Path(f"{out}.parts").exists()


def test_slurm_options_arrive(slurm, given, tmp_path):
    more = ["--partition", "cpu", "--time", "1:30:00", "--memory-gb", 7, "--gpus", 2]
    more += ["--sbatch", "account=nlp", "--sbatch", "exclusive", "--setup", "echo made ready"]
    slurm.parse(*given, *more, "--out", tmp_path / "out.conllu")
    [shards, join] = [
        json.loads(path.read_text()) for path in sorted((slurm.folder / "queue").iterdir())
    ]
    for job in (shards, join):
        options = job["options"]
        assert options["partition"] == "cpu"
        assert options["time"] == "1:30:00"
        assert options["mem-per-cpu"] == "7G"
        assert options["account"] == "nlp"
        assert options["exclusive"] == ""
        assert "\necho made ready\n" in job["script"]
    assert shards["options"]["gpus"] == "2"
    assert "gpus" not in join["options"]
    assert shards["options"]["array"] == "0-2%2"
    assert join["options"]["dependency"] == "afterok:1"
    assert join["options"]["kill-on-invalid-dep"] == "yes"  # or it would wait for ever


def test_slurm_task_that_fails(slurm, given, tmp_path):
    """The same command submits what is missing; the rest is not done again. No partition is named:
    the cluster has a default one."""
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    ran = slurm.run(kill=1)
    assert "partition" not in ran["parse"].options
    assert ran["parse"].codes == {0: 0, 1: -signal.SIGKILL, 2: 0}
    assert ran["parse-join"].codes == {}
    assert not out.exists()
    done = Path(f"{out}.parts/done")
    before = {path: path.stat().st_mtime_ns for path in done.iterdir()}
    assert sorted(path.name for path in before) == [
        f"{k:05d}.{ending}" for k in (0, 2) for ending in ("conllu", "json")
    ]
    printed = slurm.parse(*given, "--out", out).stdout
    assert "40 of 60 lines were parsed before" in printed
    assert "submitted: 1 of 3 shards" in printed
    assert_all_ended_well(slurm.run(), 1)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert out.read_bytes() == (tmp_path / "local.conllu").read_bytes()


def test_slurm_is_not_given_twice_what_it_has(slurm, given, tmp_path):
    """Whoever asks again is told; jobs that Slurm has forgotten hold up nothing."""
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    again = slurm.parse(*given, "--out", out, check=False)
    assert again.returncode == 1
    assert again.stdout.splitlines()[-1].startswith("error: Slurm still has jobs")
    assert again.stdout.splitlines()[-1].endswith("scancel 1 2")
    assert len(list((slurm.folder / "queue").iterdir())) == 2
    for path in (slurm.folder / "queue").iterdir():  # cancelled
        path.rename(slurm.folder / path.name)
    (slurm.folder / "forgotten").touch()
    slurm.parse(*given, "--out", out)
    assert_all_ended_well(slurm.run(), 3)
    assert out.read_bytes() == (tmp_path / "local.conllu").read_bytes()


def test_slurm_array_is_not_longer_than_slurm_takes(slurm, tmp_path):
    """A job of the array then does several shards; the joining job waits for all of them."""
    text, trees = toy_texts(tmp_path, 1003)
    parse_here(text, tmp_path / "local.conllu", GIVEN, 1, trees)
    options = [text, "--parser", "conllu", "--trees", trees, "--shard-lines", 1]
    slurm.parse(*options, "--out", tmp_path / "out.conllu")
    shards, join = [
        json.loads(path.read_text())["options"]
        for path in sorted((slurm.folder / "queue").iterdir())
    ]
    assert shards["array"] == "0-501%1"
    assert join["dependency"] == "afterok:1"


def test_slurm_gets_what_a_local_run_left(slurm, given, tmp_path):
    out, (text, *_, trees) = tmp_path / "out.conllu", given[:5]
    work = parts.plan(str(text), str(out), GIVEN, SHARD, str(trees))
    for k in (0, 2):
        parts.do_shard(work, k)
    slurm.parse(*given, "--out", out)
    ran = slurm.run()
    assert_all_ended_well(ran, 1)
    assert out.read_bytes() == (tmp_path / "local.conllu").read_bytes()


def test_slurm_and_broken_trees(slurm, given, tmp_path):
    """The message stands in the log of the task; other options are refused while jobs wait."""
    trees = given[4]
    trees.write_text(trees.read_text().replace("\t0\troot", "\t99\troot", 1))
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    waiting = slurm.parse(*given, "--tokenized", "--out", out, check=False)
    assert waiting.returncode == 1
    assert "made for another parser: tokenized was False, is True" in waiting.stdout
    ran = slurm.run()
    assert [code == 0 for code in ran["parse"].codes.values()] == [False, True, True]
    assert ran["parse-join"].codes == {}
    [log] = Path(f"{out}.parts/logs/slurm_logs").glob("001_0.out")
    assert "TreeError" in log.read_text()
    assert f"{trees}:" in log.read_text()
    assert not out.exists()


def test_join_without_all_shards(slurm, given, tmp_path):
    """As where somebody starts it by hand: no result, and the shards that are there are kept."""
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    (slurm.folder / "queue" / "001.json").rename(tmp_path / "array.json")
    join = slurm.folder / "queue" / "002.json"
    join.write_text(join.read_text().replace("afterok:1", "afterany:"))
    assert slurm.run()["parse-join"].codes == {0: 1}
    [log] = Path(f"{out}.parts/logs").glob("join-*/slurm_logs/002_0.out")
    assert "done/00000.conllu (and 2 more): missing" in log.read_text()
    assert not out.exists()


@pytest.mark.parametrize(
    ("sbatch", "message"),
    [
        ("echo no such account >&2; exit 1", "sbatch ended with exit code 1"),
        (None, "sbatch: No such file"),
    ],
)
def test_slurm_that_refuses_or_is_not_there(slurm, given, tmp_path, sbatch, message):
    program = slurm.folder / "bin" / "sbatch"
    program.unlink()
    if sbatch:
        program.write_text(f"#!/bin/sh\n{sbatch}\n")
        program.chmod(0o755)
    result = slurm.parse(*given, "--out", tmp_path / "out.conllu", check=False)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith("error: ")
    assert message in result.stdout.splitlines()[-1]
    assert "Traceback" not in result.stdout
    assert bool(sbatch) == ("no such account" in result.stdout)


@pytest.mark.long
def test_ray(stanza_models, tmp_path):
    pytest.importorskip("ray")
    pytest.importorskip("datatrove.executor.ray")  # not in its releases for Python 3.10
    text, _ = toy_texts(tmp_path, 60)
    settings = ParserSettings(model_dir=str(stanza_models.toy), tokenized=True)
    parse_here(text, tmp_path / "local.conllu", settings, SHARD)
    out = tmp_path / "out.conllu"
    options = [text, "--out", out, "--tokenized", "--shard-lines", SHARD, "--executor", "ray"]
    options += ["--workers", 2, "--memory-gb", 1]
    home = {"HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    result = step("parse", *options, "--model-dir", tmp_path / "none", check=False, env=home)
    assert result.returncode == 1
    assert "error: 3 of 3 shards failed on Ray" in result.stdout
    assert not out.exists()
    step("parse", *options, "--model-dir", stanza_models.toy, env=home)
    assert out.read_bytes() == (tmp_path / "local.conllu").read_bytes()


def test_ray_that_is_not_there(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray here')\n")
    (tmp_path / "text").write_text("kat\n")
    options = [tmp_path / "text", "--out", tmp_path / "out.conllu", "--executor", "ray"]
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    result = step("parse", *options, check=False, env={"PYTHONPATH": path})
    assert result.returncode == 1
    assert result.stdout.startswith("error: Ray is missing (no ray here): pip install")
    assert len(result.stdout.splitlines()) == 1
