"""The Slurm of the tests itself: it ends with the tests, whatever ends them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.commands import PATIENCE, ROOT
from support.processes import unless_gone

pytestmark = pytest.mark.long
START = """
import sys, time
from pathlib import Path
from support.slurm import Slurm

with Slurm(Path(sys.argv[1])):
    print("started", flush=True)
    time.sleep(600)
"""


def daemons(folder: Path) -> list[int]:
    """The processes that belong to a cluster, by its configuration."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with unless_gone():
            try:
                environment = path.read_bytes()
            except PermissionError:
                continue
            if f"SLURM_CONF={folder}/slurm.conf".encode() in environment.split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_nothing_is_left_when_the_tests_are_killed(slurm, tmp_path):
    """Two clusters at once do not meet."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    assert len(daemons(tmp_path)) >= 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + PATIENCE
    while daemons(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert slurm.run("srun", "-N2", "hostname").split() in (["n1", "n2"], ["n2", "n1"])
