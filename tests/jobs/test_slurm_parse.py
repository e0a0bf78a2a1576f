"""parse.py and prepare.py on a real Slurm of two nodes."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairseq_posattn.files.lock import locked
from fairseq_posattn.text.parsing.options import ParserSettings
from support.commands import ROOT
from support.parse_toys import parse_here, toy_texts
from support.processes import unless_gone
from support.slurm import Slurm

pytestmark = pytest.mark.long
GIVEN = ParserSettings("conllu")
SHARD = 20
LONG = 24000  # lines that keep a task busy for some seconds
LONGER = 2 * LONG  # for as long as Slurm takes to find a task and to end it


class Parse:
    """A parse of trees made elsewhere, and what a local run makes of them."""

    def __init__(self, slurm: Slurm, folder: Path, lines: int, shard: int):
        self.slurm, self.folder = slurm, folder
        self.text, self.trees = toy_texts(folder, lines)
        self.out, self.parts = folder / "out.conllu", folder / "out.conllu.parts"
        self.logs = self.parts / "logs/slurm_logs"
        parse_here(self.text, folder / "local.conllu", GIVEN, shard, self.trees)
        files = [self.text, "--parser", "conllu", "--trees", self.trees, "--out", self.out]
        self.options = [*files, "--shard-lines", shard, "--memory-gb", 1]

    def command(self, *more) -> list:
        program = ROOT / "preprocess/parse.py"
        return [sys.executable, program, *self.options, "--executor", "slurm", *more]

    def start(self, *more, **kwargs) -> str:
        return self.slurm.run(*self.command(*more), **kwargs)

    def submit(self, *more, **kwargs) -> tuple[str, str]:
        """The numbers of the array and of the job that joins it."""
        printed = self.start(*more, **kwargs)
        return re.search(r"Slurm job (\d+) parses .*, and job (\d+) joins them", printed).groups()

    def shards_done(self) -> list[int]:
        done = (self.parts / "done").glob("[0-9]*.json")
        return sorted(int(path.stem) for path in done)

    def assert_result(self) -> None:
        assert self.out.read_bytes() == (self.folder / "local.conllu").read_bytes()


@pytest.fixture
def parse(slurm, tmp_path) -> Parse:
    folder = tmp_path / "a folder"  # with a space
    folder.mkdir()
    return Parse(slurm, folder, 3 * SHARD, SHARD)


def workers(array: str, task: int) -> Iterator[int]:
    """The processes that do the work of a task."""
    wanted = {f"SLURM_ARRAY_JOB_ID={array}", f"SLURM_ARRAY_TASK_ID={task}"}
    for folder in Path("/proc").glob("[0-9]*"):
        with unless_gone(), suppress(PermissionError):
            environment = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            command = (folder / "cmdline").read_bytes()
            if wanted <= set(environment) and b"python" in command.split(b"\0")[0]:
                yield int(folder.name)


@pytest.mark.long(ci=True)
def test_array_and_join(stanza_models, slurm, tmp_path):
    """A text with a note, which is shown by the first command after the end, and by no other."""
    text, _ = toy_texts(tmp_path, 30)
    lines = text.read_text().splitlines()
    lines[21] = "kat " * 300
    text.write_text("".join(line + "\n" for line in lines))
    settings = ParserSettings(model_dir=str(stanza_models.toy), tokenized=True)
    parse_here(text, tmp_path / "local.conllu.zst", settings, SHARD)
    out = tmp_path / "out.conllu.zst"
    options = [text, "--model-dir", stanza_models.toy, "--tokenized", "--shard-lines", SHARD]
    program = [sys.executable, ROOT / "preprocess/parse.py", *options, "--out", out]
    command = [*program, "--executor", "slurm", "--memory-gb", 2, "--sbatch", "cpus-per-task=2"]
    printed = slurm.run(*command)
    assert "parses 2 of 2 shards" in printed
    assert f"their logs are in {out}.parts/logs/slurm_logs" in printed
    slurm.wait_for_jobs()
    log = next(Path(f"{out}.parts/logs/slurm_logs").glob("*_1.out")).read_text()
    assert "export OMP_NUM_THREADS=2 SRUN_CPUS_PER_TASK=2 POSATTN_PARSER_THREADS=2" in log
    whole = (tmp_path / "local.conllu.zst").read_bytes()
    assert out.read_bytes() == whole
    written = out.stat().st_mtime_ns
    note = "so it was parsed in 2 parts"
    printed = slurm.run(*command)
    assert note in printed
    assert "30 lines, 30 trees, checked" in printed
    assert not Path(f"{out}.parts").exists()
    printed = slurm.run(*command)
    assert "already parsed and checked; " in printed and "has notes on 1 lines" in printed
    assert note not in printed
    assert not slurm.run("squeue", "-h")
    assert out.stat().st_mtime_ns == written
    assert json.loads(Path(f"{out}.json").read_text())["answer"]["notes"][0][0] == 22


def test_tasks_that_were_cancelled_or_killed(slurm, tmp_path):
    """The same command names them and submits them again; the rest is not done again."""
    parse = Parse(slurm, tmp_path, 4 * LONG, LONG)
    array, join = parse.submit()
    slurm.wait_until(lambda: list(workers(array, 1)) and list(workers(array, 2)))
    slurm.run("scancel", f"{array}_1")
    for pid in workers(array, 2):
        os.kill(pid, signal.SIGKILL)
    slurm.wait_for_jobs()
    assert slurm.state(f"{array}_1") == "CANCELLED"
    assert slurm.state(f"{array}_2") == "FAILED"
    assert slurm.state(join) == "CANCELLED"  # it would have waited for ever
    assert not parse.out.exists()
    done = (parse.parts / "done").glob("0000[03]/*")
    before = {path: path.stat().st_mtime_ns for path in done}
    assert parse.shards_done() == [0, 3]
    printed = parse.start()
    assert f"{2 * LONG:,} of {4 * LONG:,} lines were parsed before" in printed
    assert f"2 of 4 tasks of Slurm job {array} failed; the last lines of their logs" in printed
    assert re.search(rf"^{array}_1\.out: .*CANCELLED AT", printed, re.M)
    assert re.search(rf"^{array}_2\.out: .*Killed", printed, re.M)
    assert "parses 2 of 4 shards" in printed
    slurm.wait_for_jobs()
    parse.assert_result()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_task_that_fails(parse):
    """The message stands in its log; the next command repeats it, and so does one that waits."""
    text = parse.trees.read_text()
    parse.trees.write_text(text.replace("\t0\troot", "\t99\troot", 1))
    printed = parse.start("--wait", check=False)
    assert "error: 1 of 3 shards failed (see " in printed
    assert re.search(r"^\d+_0\.out: .*TreeError: .*trees\.conllu:", printed, re.M)
    assert not parse.out.exists()
    assert parse.shards_done() == [1, 2]
    assert re.search(r"^\d+_0\.out: .*TreeError", parse.start(), re.M)


def test_a_joining_job_that_was_cancelled(parse):
    """The command that finds all shards done joins them itself."""
    _, join = parse.submit()
    parse.slurm.run("scancel", join)
    parse.slurm.wait_for_jobs()
    assert not parse.out.exists()
    assert "60 lines, 60 trees, checked" in parse.start()
    parse.assert_result()


def test_the_joining_job_waits_for_a_run_that_is_at_work(parse):
    """That run has only looked how far the jobs are."""
    _, join = parse.submit("--sbatch", "begin=now+3")
    with locked(parse.out):
        log = parse.logs / f"{join}_0.out"
        parse.slurm.wait_until(lambda: log.exists() and "parse: join" in log.read_text())
        assert not parse.out.exists()
    parse.slurm.wait_for_jobs()
    assert parse.slurm.state(f"{join}_0") == "COMPLETED"
    parse.assert_result()


def test_a_drained_node(parse):
    """The other node does all of the work."""
    parse.slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    array, _ = parse.submit()
    parse.slurm.wait_for_jobs()
    assert {parse.slurm.show(f"{array}_{k}")["NodeList"] for k in range(3)} == {"n2"}
    parse.assert_result()


@pytest.mark.long(ci=["requeued"])
@pytest.mark.parametrize("partition", ["requeued", "cancelled"])
def test_pre_empted_with_a_time_of_grace(slurm, tmp_path, partition):
    """A task that was begun goes back into the queue, and the joining job waits for it."""
    parse = Parse(slurm, tmp_path, 2 * LONGER, LONGER)
    array, join = parse.submit("--partition", partition, "--sbatch", "nodelist=n1")
    slurm.wait_until(lambda: list(workers(array, 0)) and list(workers(array, 1)))
    other = slurm.take_nodes("-w", "n1")
    slurm.wait_until(lambda: slurm.state(other) == "COMPLETED")
    for k in (0, 1):
        slurm.begin_soon(slurm.show(f"{array}_{k}")["JobId"])
    slurm.wait_for_jobs()
    assert [slurm.state(job) for job in (f"{array}_0", f"{array}_1", join)] == ["COMPLETED"] * 3
    parse.assert_result()


def test_the_last_task_is_pre_empted_alone(slurm, tmp_path):
    """Its SLURM_JOB_ID is the number of the whole array; the other task must not begin anew."""
    parse = Parse(slurm, tmp_path, 2 * LONGER, LONGER)
    array, join = parse.submit("--partition", "requeued", "--sbatch", "cpus-per-task=2")
    slurm.wait_until(lambda: list(workers(array, 0)) and list(workers(array, 1)))
    other = slurm.take_nodes("-w", slurm.show(f"{array}_1")["NodeList"])
    slurm.wait_until(lambda: slurm.state(other) == "COMPLETED")
    slurm.begin_soon(f"{array}_1")
    slurm.wait_for_jobs()
    assert [slurm.show(f"{array}_{k}")["Restarts"] for k in (0, 1)] == ["0", "1"]
    assert [slurm.state(job) for job in (f"{array}_0", f"{array}_1", join)] == ["COMPLETED"] * 3
    parse.assert_result()


def test_the_command_joins_before_the_joining_job(parse):
    """It takes that job out of the queue, with the shards that the job was to join."""
    _, join = parse.submit()
    parse.slurm.run("scontrol", "hold", join)
    parse.slurm.wait_until(lambda: parse.shards_done() == [0, 1, 2])
    assert "60 lines, 60 trees, checked" in parse.start()
    parse.slurm.wait_for_jobs()
    assert parse.slurm.state(join) == "CANCELLED"
    parse.assert_result()
    assert not parse.parts.exists()


def test_the_users_filters_hide_no_job(parse):
    parse.submit("--sbatch", "hold")
    filters = {"SQUEUE_STATES": "RUNNING", **parse.slurm.environment}
    assert "are still queued or running" in parse.start(check=False, env=filters)
