"""Trainings that run as processes of their own while a test goes on."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import ROOT, training_options


@contextmanager
def training(data: Path, save_dir: Path, *options, env=None) -> Iterator[subprocess.Popen]:
    """A training in the background, killed at the end of the block at the latest."""
    command = [sys.executable, "-m", "fairseq_cli.train"]
    process = subprocess.Popen(
        [str(part) for part in (*command, *training_options(data, save_dir, *options))],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen, text: str) -> str:
    """What it prints, up to and with the line that has the text, or to its end."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return "".join(lines)


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]
