"""File locks that the system releases when the process that holds them ends or is killed."""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.paths import is_stream
from fairseq_posattn.files.terminal import say

# Errors of file systems that do not support locks; the program then continues without a lock.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
SECONDS_BETWEEN_TRIES = 0.2
TRAINING = ".training.lock"  # lock file of a training run, in the folder of its checkpoints
held: dict[Path, TextIO] = {}  # kept open, because closing a file releases its record lock


class NoLocks(OSError):
    """Raised if the file system does not support locks."""


@contextlib.contextmanager
def locked(
    target: str | os.PathLike[str] | None,
    wait: bool = False,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Lock TARGET.lock while the block runs, so that only one run at a time writes TARGET.

    If another run holds the lock, wait until it is released (`wait=True`) or raise an InputError.
    The lock of a killed process is released; the lock file that remains is harmless. Nothing is
    locked if the target is a pipe, a device or None.

    pause: a function called with the seconds to wait between two attempts. It may raise an error to
        stop waiting.
    """
    if target is None or is_stream(Path(target)):
        yield
        return
    path = Path(f"{os.path.realpath(target)}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _take(path)
    if file is None and wait:
        say(f"{target}: another run is writing here; waiting until it ends")
    while file is None:
        if not wait:
            raise InputError(
                f"{target}: another run is writing here{_holder(path)}; wait until it ends, or "
                "stop it"
            )
        pause(SECONDS_BETWEEN_TRIES)
        file = _take(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def hold_until_the_end(path: Path, note: str) -> str | None:
    """Lock a file until this process ends, and write `note` to it. The file is not removed.

    Return None on success, or the note of the process that already holds the lock. Unlike `locked`,
    this function uses a record lock, which child processes such as data loaders do not inherit.
    """
    file = held.get(path) or open(path, "a+")  # noqa: SIM115
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise NoLocks(*error.args) from None
        file.seek(0)
        return file.read().strip()
    if path not in held:
        file.truncate(0)
        file.write(note)
        file.flush()
        held[path] = file
    return None


def wait_until_released(path: Path, pause: Callable[[float], object] = time.sleep) -> None:
    """Wait until no other process holds the lock that `hold_until_the_end` takes on a file."""
    is_announced = False
    with contextlib.suppress(NoLocks):
        while path.exists() and (holder := hold_until_the_end(path, this_process())) is not None:
            if not is_announced:
                say(f"{path.parent}: {holder} is still training here; waiting until it ends")
            is_announced = True
            pause(SECONDS_BETWEEN_TRIES)
    if path in held:
        held.pop(path).close()


def _take(path: Path) -> int | None:
    """Open and lock a file, or return None if another process holds the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        if not lock_if_possible(file):
            os.close(file)
            return None
        if is_still(path, file):
            with contextlib.suppress(OSError):  # the note is optional, for example on a full disk
                os.ftruncate(file, 0)
                os.write(file, this_process().encode())
            return file
        os.close(file)  # the process that held the lock has just removed the file


def this_process() -> str:
    """Return the process ID and host, which are recorded in lock files for the user."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _holder(path: Path) -> str:
    """Return the recorded holder of a lock, as in " (process 7 on host)", or "" if unknown."""
    with contextlib.suppress(OSError, ValueError):
        if note := path.read_text(encoding="utf-8"):
            return f" ({note})"
    return ""


def lock_if_possible(file: int) -> bool:
    """Lock an open file; return True on success or if the file system does not support locks."""
    try:
        return try_lock(file)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return True
        raise


def try_lock(file: int) -> bool:
    """Lock an open file and return True, or False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_still(path: Path, file: int) -> bool:
    """Return whether the path still refers to this open file."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False
