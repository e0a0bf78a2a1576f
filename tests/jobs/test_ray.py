"""parse.py on a real Ray."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_posattn.text.parsing.options import ParserSettings
from support.commands import PATIENCE, ROOT
from support.loopback import Loopback
from support.parse_toys import parse_here, toy_texts
from support.processes import unless_gone

pytestmark = pytest.mark.long
PROGRAM = ROOT / "preprocess/parse.py"
LONG = 24000  # lines that keep a task busy for some seconds
IMPATIENT = f"""
import runpy, sys
from fairseq_posattn.jobs import ray

ray.SECONDS_TO_WAIT_FOR_A_NODE = ray.SECONDS_BETWEEN_LOOKS = 1
runpy.run_path({str(PROGRAM)!r}, run_name="__main__")
"""


class Parse:
    """A parse of trees made elsewhere, and what a local run makes of them."""

    def __init__(self, folder: Path, lines: int, shard: int):
        self.folder, self.out = folder, folder / "out.conllu"
        self.text, self.trees = toy_texts(folder, lines)
        settings = ParserSettings("conllu")
        parse_here(self.text, folder / "local.conllu", settings, shard, self.trees)
        files = [self.text, "--parser", "conllu", "--trees", self.trees, "--out", self.out]
        self.options = [*files, "--shard-lines", shard, "--executor", "ray", "--memory-gb", 1]

    def assert_result(self) -> None:
        assert self.out.read_bytes() == (self.folder / "local.conllu").read_bytes()


def assert_error(result: subprocess.CompletedProcess, message: str) -> None:
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    assert re.match(f"error: {message}", result.stdout.splitlines()[-1]), result.stdout


def tasks_at_work() -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with unless_gone():
            if path.read_bytes().startswith(b"ray::do_shard"):
                found.add(int(path.parent.name))
    return found


@pytest.mark.long(ci=True)
def test_a_process_that_is_killed(ray, tmp_path):
    """Another process does its shard. Without --workers all CPUs are at work."""
    parse = Parse(tmp_path, 2 * LONG, LONG)
    command = ray.command(sys.executable, PROGRAM, *parse.options)
    process = subprocess.Popen(
        command, env=ray.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    end = time.monotonic() + PATIENCE
    while len(at_work := tasks_at_work()) < 2:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(at_work.pop(), signal.SIGKILL)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, printed
    assert f"{2 * LONG} lines, {2 * LONG} trees, checked" in printed
    parse.assert_result()


def test_shards_that_fail(ray, tmp_path):
    """The other shards are done, and the message of the first one is shown."""
    parse = Parse(tmp_path, 60, 20)
    trees = parse.trees.read_text()
    parse.trees.write_text(trees.replace("\t0\troot", "\t99\troot", 1))
    result = ray.run(sys.executable, PROGRAM, *parse.options, "--workers", 1)
    message = r"1 of 3 shards failed on Ray; shard 0: .*trees\.conllu:7: the parent of word"
    assert_error(result, message)
    assert not parse.out.exists()
    done = (tmp_path / "out.conllu.parts/done").glob("[0-9]*.json")
    assert sorted(path.stem for path in done) == ["00001", "00002"]


@pytest.mark.parametrize("more", [["--memory-gb", 5], ["--gpus", 1]])
def test_what_no_node_can_do(ray, tmp_path, more):
    parse = Parse(tmp_path, 20, 20)
    result = ray.run(sys.executable, "-c", IMPATIENT, *parse.options, *more)
    assert_error(
        result, "no node of the cluster has a CPU, . GB of memory and . GPUs .* within 1 seconds"
    )
    assert not parse.out.exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_an_address_where_nothing_is(ray, tmp_path, address):
    parse = Parse(tmp_path, 20, 20)
    command = ["env", f"RAY_ADDRESS={address}", sys.executable, PROGRAM, *parse.options]
    assert_error(
        ray.run(*command), f"RAY_ADDRESS={address}: cannot connect to a Ray cluster at this address"
    )


def test_without_a_cluster(ray, tmp_path):
    """A Ray of this machine alone is started, and ends with the parse."""
    parse = Parse(tmp_path, 20, 20)
    environment = {name: value for name, value in ray.environment.items() if "ADDRESS" not in name}
    with Loopback() as network:
        command = network.inside(sys.executable, PROGRAM, *parse.options)
        subprocess.run(command, env=environment, check=True)
    parse.assert_result()
