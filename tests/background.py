"""Trainings that run as processes of their own while a test goes on."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import ROOT, training_options


class Training:
    """A training in the background, killed at the end of the `with` block at the latest."""

    def __init__(self, data: Path, save_dir: Path, *options):
        self.start(training_options(data, save_dir, *options))

    @classmethod
    def of(cls, arguments: list) -> "Training":
        """A training with these arguments of fairseq-train alone."""
        training = cls.__new__(cls)
        training.start(arguments)
        return training

    def start(self, arguments: list) -> None:
        command = [sys.executable, "-m", "fairseq_cli.train", *arguments]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.log.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def printed(self) -> str:
        return os.pread(self.log.fileno(), 1 << 24, 0).decode()

    def wait_for(self, text: str, times: int = 1, seconds: float = 600) -> None:
        """Until the text has been printed so often, or the training has ended."""
        end = time.monotonic() + seconds
        while self.printed().count(text) < times and self.process.poll() is None:
            assert time.monotonic() < end, f"no {text!r} in {self.printed()[-2000:]}"
            time.sleep(0.02)

    def wait(self, seconds: float = 600) -> int:
        return self.process.wait(seconds)


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]
