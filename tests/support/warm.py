"""Programs of the tests start warm: in a fork of a process that has imported torch and fairseq.

`python()` is a program to be called as `python`, and `home()` a virtual environment with it,
for shell scripts. What cannot start warm (other locales, a terminal, options of Python) starts as
usual.
"""

import atexit
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from filelock import FileLock

from support.warm_client import Cold, Program

HERE = Path(__file__).parent
SHARED = "WARM_SERVER"  # the variable that names the owner of the server and its folder
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
STAMP = ".fairseq_posattn"  # says to recipes/common.sh that an environment is complete


def python() -> str:
    """Return the path of a Python that starts warm."""
    return str(home() / "bin/python")


def start(program, *arguments, streams, environment=None, folder=None, alone=False):
    """Start a command and return its process: a Program, or a Popen where it is cold.

    With `alone` it leads a session and a group of processes of its own.
    """
    program, *arguments = map(str, (program, *arguments))
    if program == sys.executable:
        with contextlib.suppress(Cold):
            address = str(home() / "socket")
            return Program(address, arguments, streams, environment, folder, alone)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [program, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        cwd=folder,
        start_new_session=alone,
    )


def variables() -> dict[str, str]:
    """Return what a shell script of the recipes needs in order to take the warm Python."""
    return {"VIRTUAL_ENV": str(home())}


def share() -> None:
    """Let all processes that this one starts use one server, which ends with this one."""
    folder = tempfile.mkdtemp(prefix="warm")
    os.environ[SHARED] = f"{os.getpid()}:{folder}"
    atexit.register(remove, folder, os.getpid())


@cache
def home() -> Path:
    """Return a folder with the programs of this environment, of which `python` starts warm."""
    if SHARED not in os.environ:
        share()
    owner, _, folder = os.environ[SHARED].partition(":")
    with FileLock(Path(folder, "lock")):
        if not Path(folder, "bin").exists():
            furnish(Path(folder), owner)
    return Path(folder)


def furnish(folder: Path, owner: str) -> None:
    """Make the programs of `home`, and start their server."""
    (folder / "bin").mkdir()
    client = (sys.executable, "-E", "-S", HERE / "warm_client.py", folder / "socket")
    for program in Path(sys.prefix, "bin").iterdir():
        path = folder / "bin" / program.name
        if program.name in ("python", "python3"):
            write_program(path, *client, sys.executable)
        elif is_python(program):
            write_program(path, *client, sys.executable, program)
        elif not program.name.startswith("python"):
            path.symlink_to(program)
    if Path(sys.prefix, STAMP).exists():
        shutil.copy(Path(sys.prefix, STAMP), folder)
    start_server(folder / "socket", owner)


def is_python(program: Path) -> bool:
    """Return whether a program is a script that this environment's Python runs."""
    with open(program, "rb") as file:
        return file.read(200).startswith(f"#!{Path(sys.prefix, 'bin')}/python".encode())


def write_program(path: Path, *command) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
    path.chmod(0o755)


def start_server(socket: Path, owner: str) -> None:
    """Start the process that programs are forked from, and wait until it answers."""
    server = subprocess.Popen(
        [sys.executable, HERE / "warm_server.py", socket, owner],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    while not socket.exists():
        assert server.poll() is None, "the server of warm starts has ended"
        time.sleep(0.02)


def remove(folder: Path, owner: int) -> None:
    """Delete the folder at the end of the process that made it, not of its forks."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
