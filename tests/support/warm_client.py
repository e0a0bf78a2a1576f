"""A client of warm_server.py, as a class and as a program that stands for `python`.

`python -E -S warm_client.py SOCKET PYTHON ARGUMENTS...` does what `PYTHON ARGUMENTS...` does: same
arguments, streams, signals and end. What the server cannot do (options of Python, a terminal, other
variables that Python reads at its start) is left to PYTHON itself.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Cold(Exception):
    """The server cannot start this program."""


class Program:
    """A program that runs in a fork of the server; its methods are those of subprocess.Popen."""

    def __init__(
        self, address, arguments, streams=(0, 1, 2), environment=None, folder=None, alone=False
    ):
        if not can_fork(arguments, streams):
            raise Cold
        mask = os.umask(0)
        os.umask(mask)
        request = {
            "arguments": arguments,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or os.getcwd()),
            "ignored": [int(s) for s in FORWARDED if signal.getsignal(s) == signal.SIG_IGN],
            "group": None if alone else os.getpgrp(),
            "umask": mask,
        }
        body = json.dumps(request).encode()
        self.connection = socket.socket(socket.AF_UNIX)
        try:
            self.connection.connect(address)
            socket.send_fds(self.connection, [b"%d\n" % len(body)], list(streams))
            self.connection.sendall(body)
            self.replies = self.connection.makefile()
            reply = self.replies.readline()
        except OSError as error:
            raise Cold from error
        if reply == "cold\n":
            raise Cold
        self.pid, self.returncode = int(reply), None

    def poll(self):
        """Return the exit code, or None while the program runs."""
        if self.returncode is None and select.select([self.connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end and return the exit code, negative after a signal."""
        if self.returncode is None:
            if not select.select([self.connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(self.replies.readline() or 1)
            self.connection.close()
        return self.returncode

    def send_signal(self, number):
        """Send a signal to the program if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self):
        """Kill the program."""
        self.send_signal(signal.SIGKILL)


def can_fork(arguments, streams):
    """Return whether a fork can do what these arguments and streams ask for."""
    if not arguments or (arguments[0] not in ("-m", "-c") and arguments[0].startswith("-")):
        return False
    pipes = any("/dev/fd/" in argument for argument in arguments)  # only these streams are sent
    return not pipes and not any(map(os.isatty, streams))


def main(address, python, *arguments):
    """Have the server run a program, and end as it ends."""
    try:
        program = Program(address, arguments)
    except Cold:
        os.execv(python, [python, *arguments])
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: program.send_signal(received))
    code = program.wait()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
