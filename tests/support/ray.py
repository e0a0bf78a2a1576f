"""A real Ray of one node on this machine, as far as the package is installed."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.commands import ROOT
from support.loopback import Loopback

ADDRESS = "127.0.0.1:6379"
CPUS, GIGABYTES = 2, 4
START = ["--head", "--node-ip-address=127.0.0.1", "--port=6379", "--include-dashboard=false"]


class Ray:
    """Its daemons run in a network of their own until the `with` block ends."""

    def __init__(self):
        pytest.importorskip("ray")
        self.network = Loopback()
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets need a short name
        without = {name: value for name, value in os.environ.items() if not name.startswith("RAY")}
        own = {"RAY_ADDRESS": ADDRESS, "RAY_USAGE_STATS_ENABLED": "0"}
        own |= {"HOME": str(self.folder), "RAY_TMPDIR": str(self.folder)}
        self.environment = {**without, **own}

    def __enter__(self):
        size = [f"--num-cpus={CPUS}", f"--memory={GIGABYTES << 30}", f"--temp-dir={self.folder}"]
        store = "--object-store-memory=100000000"
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", *START, *size, store]
        result = self.run(*start)
        if result.returncode:
            self.__exit__()
            raise AssertionError(f"ray start ended with {result.returncode}: {result.stdout}")
        return self

    def __exit__(self, *_):
        self.network.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *command) -> list[str]:
        """A command that runs on a machine of this cluster; it takes self.environment."""
        return self.network.inside(*command, cwd=ROOT)

    def run(self, *command) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*command),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
