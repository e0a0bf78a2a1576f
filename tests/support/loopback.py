"""A network of its own, with nothing but the loopback, for daemons that tests start.

The daemons get namespaces of their own for network, processes and mounts. So their ports meet
nobody else's, nothing outside reaches them, and the kernel ends all of them with the first process
in there, which ends with the test's process, whatever ends that.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROOT

UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
FIRST_PROCESS = """
import fcntl, signal, socket, struct, sys

SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    # Slurm looks no address up (AI_ADDRCONFIG) where all that the machine has begin with 127
    own = socket.inet_aton("192.0.2.1")
    fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, own))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries those who lost their parents
print("ready", flush=True)
sys.stdin.read()
"""


class Loopback:
    """These namespaces exist as long as the `with` block, or this process."""

    def __init__(self):
        if os.geteuid() or not (shutil.which("unshare") and shutil.which("nsenter")):
            pytest.skip("daemons are started in namespaces of their own, which takes root")
        self.unshare = subprocess.Popen(
            [*UNSHARE, sys.executable, "-c", FIRST_PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self.unshare.stdout.readline() != "ready\n":
            pytest.skip(f"no namespaces here: {self.unshare.communicate()[1].strip()[-200:]}")
        tasks = Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}")
        self.first = int((tasks / "children").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unshare.communicate()  # closes its stdin, so the first process ends, and all others

    def inside(self, *command, cwd: Path = ROOT) -> list[str]:
        """A command that runs in there."""
        enter = ["nsenter", f"--target={self.first}", "--net", "--mount", "--pid", f"--wd={cwd}"]
        return [*enter, *map(str, command)]
