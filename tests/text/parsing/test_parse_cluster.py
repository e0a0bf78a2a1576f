"""What parse.py gives to Slurm and asks it, with stand-ins for its commands, and Ray that is not
there. What becomes of it on a real Slurm and a real Ray: see the folder `cluster`."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from support.commands import step
from support.parse_toys import toy_texts

SHARD = 20

# As the real one, sbatch refuses options that it does not know or that lack their value.
SBATCH = """\
import json, os, sys
from pathlib import Path

FLAGS = {"requeue", "exclusive"}
VALUES = {"account", "array", "cpus-per-task", "dependency", "error", "export", "gpus", "mem",
          "job-name", "kill-on-invalid-dep", "mem-per-cpu", "nodes", "output", "partition", "qos",
          "time"}
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
job = {"options": options, "script": content, "env": dict(os.environ)}
(queue / f"{number:04d}.json").write_text(json.dumps(job))
print(f"Submitted batch job {number}")
"""


class FakeSlurm:
    """Its sbatch writes down what it is given; nothing runs."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "queue").mkdir()
        self.program("sbatch", f"#!{sys.executable}\n{SBATCH}")
        self.program("squeue", "#!/bin/sh\necho '  1  cpu  parse  PD  0:00  1  (Resources)'\n")
        self.environment = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def program(self, name: str, code: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(code)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def parse(self, *arguments, env=None, **kwargs) -> subprocess.CompletedProcess:
        env = {**self.environment, **(env or {})}
        return step("parse", *arguments, "--executor", "slurm", env=env, **kwargs)

    def submitted(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "queue").iterdir())]


@pytest.fixture
def slurm(tmp_path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def given(tmp_path) -> list:
    """Options for three shards of trees made elsewhere."""
    text, trees = toy_texts(tmp_path, 3 * SHARD)
    return [text, "--parser", "conllu", "--trees", trees, "--shard-lines", SHARD]


def test_options_arrive(slurm, given, tmp_path):
    more = ["--partition", "cpu", "--time", "1:30:00", "--memory-gb", 7, "--gpus", 2]
    more += ["--sbatch", "account=nlp", "--sbatch", "exclusive", "--setup", "echo made ready"]
    slurm.parse(*given, *more, "--workers", 2, "--out", tmp_path / "out.conllu")
    [shards, join] = slurm.submitted()
    for job in (shards, join):
        options = job["options"]
        assert options["partition"] == "cpu"
        assert options["time"] == "1:30:00"
        assert options["mem"] == "7G"  # of the worker, however many CPUs it has
        assert "mem-per-cpu" not in options
        assert options["account"] == "nlp"
        assert "\necho made ready\n" in job["script"]
    assert shards["options"]["gpus"] == "2" and shards["options"]["exclusive"] == ""
    assert not {"gpus", "exclusive"} & join["options"].keys()
    assert shards["options"]["array"] == "0-2%2"
    assert join["options"]["dependency"] == "afterok:1"
    assert join["options"]["kill-on-invalid-dep"] == "yes"  # or it would wait for ever


def test_memory_of_each_cpu(slurm, given, tmp_path):
    slurm.parse(*given, "--sbatch", "mem-per-cpu=3G", "--out", tmp_path / "out.conllu")
    for job in slurm.submitted():
        assert job["options"]["mem-per-cpu"] == "3G" and "mem" not in job["options"]


def test_killed_between_the_two_submissions(slurm, given, tmp_path):
    """The array is known to the same command, which does not submit it again."""
    sbatch = slurm.folder / "bin/sbatch"
    once = f"[ -e {tmp_path}/once ] && kill -9 $PPID && exit 1\ntouch {tmp_path}/once\n"
    sbatch.rename(sbatch.with_name("real"))
    slurm.program("sbatch", f'#!/bin/sh\n{once}exec {sbatch.with_name("real")} "$@"\n')
    options = [*given, "--out", tmp_path / "out.conllu"]
    assert slurm.parse(*options, check=False).returncode == -signal.SIGKILL
    result = slurm.parse(*options, check=False)
    assert "Slurm jobs 1 of an earlier run are still queued or running (" in result.stdout
    assert result.returncode == 1 and len(slurm.submitted()) == 1


@pytest.mark.long(ci=True)
def test_a_joining_job_does_not_stop_the_next_run(slurm, given, tmp_path):
    """Slurm may keep it in the queue after the array has failed."""
    cancelled, options = tmp_path / "cancelled", [*given, "--out", tmp_path / "out.conllu"]
    slurm.parse(*options)
    join_waits = f'case "$*" in *" 2") [ -e {cancelled} ] || echo 2;; esac'
    slurm.program("squeue", f"#!/bin/sh\n{join_waits}\n")
    slurm.program("scancel", f"#!/bin/sh\ntouch {cancelled}\n")
    result = slurm.parse(*options, "--wait", check=False)
    assert result.returncode == 1 and "3 of 3 shards failed" in result.stdout
    slurm.parse(*options)
    assert len(slurm.submitted()) == 4


@pytest.mark.parametrize("said", ["", " on cluster far"])
def test_the_number_of_a_job(said):
    from fairseq_posattn.jobs.slurm import job_id

    assert job_id(f"sbatch: a note\nSubmitted batch job 4711{said}\n") == "4711"
    with pytest.raises(InputError, match="sbatch printed no job ID but 'sorry'"):
        job_id("sorry\n")


def test_jobs_do_not_inherit_the_job_that_they_were_submitted_from(slurm, given, tmp_path):
    """What the user set for all jobs is kept."""
    of_the_job = {"SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "1500", "SLURM_CPUS_PER_TASK": "8"}
    of_the_job |= {"SLURM_ARRAY_TASK_ID": "0", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
    of_the_job["POSATTN_ENDS_WITH"] = "a recipe, which ends before the job"
    of_the_user = {"SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "nlp"}
    slurm.parse(*given, "--out", tmp_path / "out.conllu", env={**of_the_job, **of_the_user})
    assert len(slurm.submitted()) == 2
    for job in slurm.submitted():
        assert not of_the_job.keys() & job["env"].keys()
        assert {name: job["env"].get(name) for name in of_the_user} == of_the_user


def test_an_array_is_not_longer_than_slurm_takes(slurm, tmp_path):
    """A job of the array then does several shards; the joining job waits for all of them."""
    text, trees = toy_texts(tmp_path, 1003)
    options = [text, "--parser", "conllu", "--trees", trees, "--shard-lines", 1]
    slurm.parse(*options, "--out", tmp_path / "out.conllu")
    shards, join = [job["options"] for job in slurm.submitted()]
    assert shards["array"] == "0-501"
    assert join["dependency"] == "afterok:1"


def error_of(result: subprocess.CompletedProcess) -> str:
    """The last line, which must be the error."""
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    error = result.stdout.splitlines()[-1]
    assert error.startswith("error: ") and len(error) < 500
    return error


def test_sbatch_that_refuses(slurm, given, tmp_path):
    slurm.program("sbatch", "#!/bin/sh\necho no such account >&2; exit 1\n")
    result = slurm.parse(*given, "--out", tmp_path / "out.conllu", check=False)
    assert "(exit code 1); see its message above" in error_of(result)
    assert "no such account" in result.stdout


def test_a_machine_without_slurm(given, tmp_path):
    (tmp_path / "empty").mkdir()
    options = [*given, "--out", tmp_path / "out.conllu", "--executor", "slurm"]
    result = step("parse", *options, check=False, env={"PATH": str(tmp_path / "empty")})
    assert (
        error_of(result)
        == "error: sbatch was not found; run this command on a machine of a Slurm cluster"
    )


@pytest.mark.parametrize(
    ("squeue", "answer"),
    [
        ("echo '1 cpu parse R 0:01 1 n1'", "of an earlier run are still queued or running"),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", None),
        ("exit 0", None),
        ("echo slurm_load_jobs error: Unable to contact slurm >&2; exit 1", "cannot determine"),
        ("exit 7", "cannot determine"),
    ],
)
def test_a_job_is_gone_only_where_squeue_says_so(slurm, given, tmp_path, squeue, answer):
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    slurm.program("squeue", f"#!/bin/sh\n{squeue}\n")
    result = slurm.parse(*given, "--out", out, check=False)
    if answer:
        assert answer in error_of(result)
    assert len(slurm.submitted()) == (2 if answer else 4)


def test_a_machine_without_squeue(slurm, given, tmp_path):
    """As where the folders are shared with a machine that is no part of the cluster."""
    out = tmp_path / "out.conllu"
    slurm.parse(*given, "--out", out)
    (tmp_path / "empty").mkdir()
    options = [*given, "--out", out, "--executor", "local"]
    result = step("parse", *options, check=False, env={"PATH": str(tmp_path / "empty")})
    assert (
        "cannot determine whether Slurm job 1 of an earlier run has ended (squeue was not found)"
        in error_of(result)
    )
    assert f"remove {out}.parts/logs/jobs.json" in result.stdout


def test_ray_that_is_not_there(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray here')\n")
    (tmp_path / "text").write_text("kat\n")
    options = [tmp_path / "text", "--out", tmp_path / "out.conllu", "--executor", "ray"]
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    result = step("parse", *options, check=False, env={"PYTHONPATH": path})
    assert result.returncode == 1
    assert result.stdout.startswith("error: Ray is missing (no ray here); run pip install")
    assert len(result.stdout.splitlines()) == 1
