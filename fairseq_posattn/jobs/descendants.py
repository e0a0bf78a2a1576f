"""Kill all descendants of a program when it ends, even if it is killed itself.

A program that receives SIGKILL cannot terminate its children. Therefore a helper process waits
until the program ends, and then kills all processes whose environment contains a specific variable.
All descendants inherit this variable, even those in separate sessions, such as torchrun's workers.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "POSATTN_ENDS_WITH"
LATE = 0.5  # seconds until a child that is just being started has its environment


@contextlib.contextmanager
def ended_with_this_process() -> Iterator[None]:
    """Kill all processes started in this block when the block or this process ends.

    This requires /proc, which exists on Linux.
    """
    before, mark = os.environ.get(MARK), f"{os.getpid()}.{secrets.token_hex(8)}"
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, f"{MARK}={mark}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},  # without the variable of an enclosing program, which would kill the helper
        cwd="/",
        start_new_session=True,  # isolates it from signals to our process group
    )
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if before is not None:
            os.environ[MARK] = before
        with contextlib.suppress(BrokenPipeError):
            helper.communicate(b"\n")  # all children have started; do not wait for late ones


def kill_all(mark: bytes) -> bool:
    """Kill all processes whose environment contains `mark`; return whether there were any."""
    found = False
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
                found = True
    return found


if __name__ == "__main__":
    # wait until the program ends or writes a byte
    until = 0.0 if sys.stdin.buffer.read(1) else time.monotonic() + LATE
    while kill_all(os.fsencode(sys.argv[1])) or time.monotonic() < until:
        time.sleep(0.02)
