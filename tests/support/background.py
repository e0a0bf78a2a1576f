"""Programs that run as processes of their own while a test goes on, and are killed at its end."""

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import warm
from support.commands import PATIENCE, ROOT, training_options
from support.processes import children, command_line, is_alive


class Background:
    """A command runs in the background; it is killed at the end of the `with` block at the latest.

    This environment's Python starts warm (see support.warm). With `alone` the command leads a group
    of processes, as one that a shell starts.
    """

    def __init__(self, command: list, alone: bool = False):
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.seen: set[int] = set()  # processes that it started, as far as anyone looked
        self.process = warm.start(
            *command,
            streams=(0, self.log.fileno(), self.log.fileno()),
            environment={**os.environ, "OMP_NUM_THREADS": "1"},
            folder=ROOT,
            alone=alone,
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

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(seconds)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the text has been printed so often, or the program has ended."""
        end = time.monotonic() + PATIENCE
        while self.printed().count(text) < times and self.is_running():
            assert time.monotonic() < end, f"no {text!r} in {self.printed()[-2000:]}"
            time.sleep(0.02)

    def wait_until(self, condition: Callable[[], Any]) -> Any:
        """Wait until the condition holds, and return its value; the program must not end before."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert self.is_running(), self.printed()[-3000:]
            assert time.monotonic() < end, self.printed()[-3000:]
            time.sleep(0.005)
        return value

    def look(self) -> list[int]:
        """Return the processes that it has started, and remember them."""
        started = list(children(self.process.pid))
        self.seen.update(started)
        return started

    def left_behind(self) -> list[int]:
        """Return which of the processes seen do not end in time."""
        end = time.monotonic() + PATIENCE
        while left := [pid for pid in self.seen if is_alive(pid)]:
            if time.monotonic() > end:
                return left
            time.sleep(0.01)
        return []


class Training(Background):
    """This is a tiny training by fairseq-train."""

    def __init__(self, data: Path, save_dir: Path, *options):
        self.start(training_options(data, save_dir, *options))

    @classmethod
    def of(cls, arguments: list) -> "Training":
        """Start a training with these arguments of fairseq-train alone."""
        training = cls.__new__(cls)
        training.start(arguments)
        return training

    def start(self, arguments: list) -> None:
        super().__init__([sys.executable, "-m", "fairseq_cli.train", *arguments])


class Parse(Background):
    """This is a parse by preprocess/parse.py, with workers."""

    def __init__(self, *arguments):
        super().__init__([sys.executable, ROOT / "preprocess/parse.py", *arguments], alone=True)

    def workers(self) -> list[int]:
        return [pid for pid in self.look() if b"spawn_main" in command_line(pid)]

    def kill_worker(self) -> None:
        os.kill(self.wait_until(self.workers)[0], signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]
