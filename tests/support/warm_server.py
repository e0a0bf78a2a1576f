"""A server that runs Python programs in forks of itself, after it has imported what takes long.

Importing torch and fairseq takes seconds of processor time, and the tests start hundreds of
programs. `python warm_server.py SOCKET PARENT` imports both once; each program that warm_client.py
asks for then runs in a fork, as `python FILE ...`, `python -m MODULE ...` or `python -c CODE ...`
would run it. The package under test is not among the imports. The server ends with PARENT, which is
the number of a process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types
import warnings
from typing import NoReturn

import numpy

PRELOADED = (
    *("fairseq", "fairseq_cli.train", "fairseq_cli.generate", "sacrebleu", "stanza"),
    "torch._dynamo",  # each optimiser imports it, which takes over a second
)


def serve(path: str, parent: int) -> list[str]:
    """Answer requests until the parent ends; return the arguments of a program in its fork."""
    owner = os.pidfd_open(parent)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    logging.root.handlers.clear()  # each program sets up its own logging
    logging.root.setLevel(logging.WARNING)
    for name in [name for name in sys.modules if name.startswith("fairseq_cli.")]:
        del sys.modules[name]  # Python warns when it runs a module that is imported already
    gc.freeze()  # or the first collection in a fork copies all memory
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{path}.new")
    server.listen(64)
    os.rename(f"{path}.new", path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the forks that wait
    while True:
        ready, _, _ = select.select([server, owner], [], [])
        if owner in ready:
            sys.exit()
        if ready:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                os.close(owner)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return answer(connection)
            connection.close()


def answer(connection: socket.socket) -> list[str]:
    """Start the requested program in a fork of its own and return its arguments there."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    size, _, body = message.partition(b"\n")
    while len(body) < int(size):
        body += connection.recv(1 << 20)
    request = json.loads(body)
    if fixed(request["environment"]) != fixed(START):
        connection.sendall(b"cold\n")
        os._exit(0)
    program = os.fork()
    if program:
        for descriptor in descriptors:
            os.close(descriptor)
        wait_for(program, connection)
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["group"] is None:
        os.setsid()
    else:
        with contextlib.suppress(OSError):  # of another session
            os.setpgid(0, request["group"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    return request["arguments"]


def fixed(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that Python reads at its start, so that a fork cannot change them."""
    starts = ("PYTHON", "LC_", "LANG", "OMP_", "MALLOC_", "LD_")
    follows = ("PYTHONPATH", "PYTHONWARNINGS")
    return {k: v for k, v in environment.items() if k.startswith(starts) and k not in follows}


def wait_for(program: int, connection: socket.socket) -> NoReturn:
    """Tell the program's number and then its end; kill it if the client has gone."""
    connection.sendall(f"{program}\n".encode())
    ended = os.pidfd_open(program)
    select.select([ended, connection], [], [])
    if not select.select([ended], [], [], 0)[0]:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(arguments: list[str]) -> None:
    """Run the program as __main__, with the arguments and the module path that it would have."""
    numpy.random.seed()
    kind, *rest = arguments
    own = os.path.dirname(os.path.abspath(__file__))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    warnings._processoptions(filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")))
    sys.path[:] = [*filter(None, paths), *(p for p in START_PATH if p != own)]
    if kind == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.realpath(kind)))
        runpy.run_path(kind, run_name="__main__")


START = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
START_PATH = [p for p in sys.path if p not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def end_of(arguments: list[str]) -> int:
    """Run the program and return its exit code, with all that Python does at the end of one."""
    code: object = None
    try:
        become(arguments)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = -signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    threading._shutdown()  # waits for the program's threads, as the interpreter does
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    return code or 0


def end(code: int) -> NoReturn:
    """End without taking the interpreter apart: in a fork that takes seconds."""
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # as Python ends if its output cannot be written
    sys.stderr.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    end(end_of(serve(sys.argv[1], int(sys.argv[2]))))
