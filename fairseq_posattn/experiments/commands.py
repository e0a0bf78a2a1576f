"""Run the commands of a recipe, or only print them (--dry-run)."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.command_line import one_line
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.requests import INTERPRETER, command_of
from fairseq_posattn.jobs.descendants import ended_with_this_process

LOOK_AGAIN = 0.5  # seconds between two reads of a command's log
TAIL = 1 << 14  # bytes at the end of a log that are searched for a message
Command = Sequence[str | Path]


class CommandFailed(InputError):
    """Raised if a command fails. The message includes the last error in the command's log, if any.

    code: exit code for the recipe: 128 + N if signal N terminated the command, otherwise 1.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class Shell:
    """Runs commands, and shows their output on the screen or writes it to log files.

    dry_run: only print the commands.
    """

    def __init__(self, dry_run: bool = False):
        self.dry_run = dry_run
        self.running: set[subprocess.Popen] = set()
        self.stopped = threading.Event()
        self.starting = False  # whether the main thread is starting a command
        self.late: int | None = None  # a signal received while `starting` was true

    def does(self, what: str) -> bool:
        """Return whether to perform an action; in a dry run, print `what` and return False."""
        if self.dry_run:
            print(f"# {what}")
        return not self.dry_run

    def act(self, action: Callable[..., Any], *words: Any, instead: Any = None) -> Any:
        """Call an action and return its result; in a dry run, only return `instead`."""
        return instead if self.dry_run else action(*words)

    def call(self, action: Callable[[Any], object], request: Any) -> None:
        """Call the function of a subcommand; in a dry run, print the equivalent command."""
        if self.dry_run:
            print(shown(command_of(request)))
        else:
            action(request)

    def is_there(self, path: Path) -> bool:
        """Return whether a path exists; in a dry run, assume that it does."""
        return self.dry_run or path.exists()

    def locked(self, path: Path) -> contextlib.AbstractContextManager:
        """Return a context manager that locks a path against other processes.

        Entering the context blocks until the lock is available. In a dry run, nothing is locked.
        """
        return contextlib.nullcontext() if self.dry_run else locked(path, True, self.pause)

    def pause(self, seconds: float) -> None:
        """Wait; raise CommandFailed if a signal stops the recipe before or during the wait."""
        if self.stopped.wait(seconds):
            raise CommandFailed("the recipe was stopped by a signal", 1)

    def run(
        self,
        command: Command,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        look: Callable[[], object] = lambda: None,
        append: bool = True,
    ) -> None:
        """Run a command; raise CommandFailed if it fails.

        log: file for the output (default: the screen).
        environment: environment variables to add or override.
        look: callback that is called about twice per second while the command runs.
        append: append to the log instead of overwriting it.
        """
        self.run_at_once([command], [log], [environment], look, append)

    def run_at_once(
        self,
        commands: Sequence[Command],
        logs: Sequence[Path | None],
        environments: Sequence[Mapping[str, str] | None],
        look: Callable[[], object] = lambda: None,
        append: bool = False,
    ) -> None:
        """Run several commands in parallel; if one fails, terminate the others."""
        jobs = list(zip(commands, logs, environments, strict=True))
        if self.dry_run:
            for command, _, environment in jobs:
                print(shown(command, environment))
            return
        begins = [log.stat().st_size if append and log and log.exists() else 0 for log in logs]
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(self.started(*job, append)) for job in jobs]
            while any(process.returncode is None for process in started):
                for process, (command, log, _), begin in zip(started, jobs, begins, strict=True):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(LOOK_AGAIN)
                    look()
                    if process.returncode:
                        raise failure(command, log, process.returncode, begin)

    def write(self, command: Command, out: Path, message: str) -> None:
        """Write the output of a command to a file atomically.

        Raises InputError with `message` if the command fails.
        """
        if self.dry_run:
            print(f"{shown(command)} > {shlex.quote(str(out))}")
            return
        with replaced_whole(out) as partial, open(partial, "wb") as file:
            if subprocess.run([str(part) for part in command], stdout=file, check=False).returncode:
                raise InputError(message)

    @contextlib.contextmanager
    def started(
        self,
        command: Command,
        log: Path | None,
        environment: Mapping[str, str] | None,
        append: bool,
    ) -> Iterator[subprocess.Popen]:
        """Start a command; at the end of the `with` block, terminate it if it is still running."""
        if self.stopped.is_set():
            raise CommandFailed(f"{program(command)} was not started, because of a signal", 1)
        with contextlib.ExitStack() as stack:
            out = None
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                out = stack.enter_context(open(log, "ab" if append else "wb"))
            self.starting = threading.current_thread() is threading.main_thread()
            try:
                process = subprocess.Popen(
                    [str(part) for part in command],
                    stdout=out,
                    stderr=None if out is None else subprocess.STDOUT,
                    env={**os.environ, "PYTHONWARNINGS": "ignore", **(environment or {})},
                )
                self.running.add(process)
            finally:
                self.starting = False
            try:
                if self.late is not None:
                    self.stop(self.late)
                if self.stopped.is_set():  # another thread received a signal
                    process.terminate()
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()
                process.wait()
                self.running.discard(process)

    def stop(self, number: int, _frame: object = None) -> None:
        """Signal handler: forward the signal to all running commands, and raise Stopped."""
        self.stopped.set()
        if self.starting:  # otherwise the command that is being started would be left running
            self.late = number
            return
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
        raise Stopped(number)

    @contextlib.contextmanager
    def passing_signals_on(self) -> Iterator[None]:
        """Forward signals to the commands; if this process ends, even by SIGKILL, kill them."""
        passed = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
        heard = [n for n in passed if signal.getsignal(n) != signal.SIG_IGN]  # nohup ignores SIGHUP
        before = {number: signal.signal(number, self.stop) for number in heard}
        try:
            with contextlib.nullcontext() if self.dry_run else ended_with_this_process():
                yield
        except Stopped as stopped:  # now let the signal terminate this process
            signal.signal(stopped.number, signal.SIG_DFL)
            signal.raise_signal(signal.Signals(stopped.number))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Stopped(BaseException):
    """Raised when a signal stops the recipe.

    It is not derived from Exception, so `except Exception` does not catch it.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def shown(command: Command, environment: Mapping[str, str] | None = None) -> str:
    words = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    return " ".join([*words, shlex.join(str(part) for part in command)])


def failure(command: Command, log: Path | None, code: int, begin: int = 0) -> CommandFailed:
    """Return the exception for a failed command, including the last error message in its log.

    code: return code of the process; -N if signal N terminated it.
    begin: offset in the log at which the output of this command starts.
    """
    name = program(command)
    if code < 0:
        reason = f"was stopped by {signal.Signals(-code).name}"
    else:
        reason = f"ended with exit code {code}"
    said = f": {last_message(log, begin)}; see {log}" if log is not None else ""
    return CommandFailed(f"{name} {reason}{said}", 128 - code if code < 0 else 1)


def program(command: Command) -> str:
    """Return the name of a command's program for error messages, such as fairseq-train."""
    words = [str(word) for word in command]
    if "-m" not in words:
        return Path(words[0]).name
    module, *others = words[words.index("-m") + 1 :]
    if module == "fairseq_posattn":
        return f"posattn {others[0]}"
    return module.replace("fairseq_cli.", "fairseq-")


def last_message(log: Path, begin: int = 0) -> str:
    """Return the last error message in a log or, if there is none, the last non-empty line.

    begin: ignore the log before this offset.
    """
    with open(log, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(begin, file.tell() - TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    filled = [line.strip() for line in lines if line.strip()] or ["it printed nothing"]
    errors = [line for line in filled if line.startswith("error: ")]
    return errors[-1].removeprefix("error: ") if errors else one_line(filled[-1])


def python(module: str, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs a module with the Python interpreter of the recipes.

    The interpreter is specified by the environment variable POSATTN_PYTHON. If it is not set, the
    current interpreter is used.
    """
    return [os.environ.get(INTERPRETER, sys.executable), "-m", module, *arguments]


def called(step: str, recipe: str | Path) -> str:
    """Return the command that the user runs for a step: recipes/STEP.sh or posattn recipe STEP."""
    door = f"recipes/{step}.sh" if INTERPRETER in os.environ else f"posattn recipe {step}"
    return f"{door} {shlex.quote(str(recipe))}"
