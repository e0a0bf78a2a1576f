"""Take locks that are released when their process ends, however it ends."""

from __future__ import annotations

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
from fairseq_posattn.io.paths import is_stream
from fairseq_posattn.io.progress import say

# A file system without locks answers with one of these errors; the work then goes on without one.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
SECONDS_BETWEEN_TRIES = 0.2
TRAINING = ".training.lock"  # a training holds this lock in the folder of its checkpoints
held: dict[Path, TextIO] = {}  # the files stay open, because closing one releases its record lock


class NoLocks(OSError):
    """This error says that the file system has no locks."""


@contextlib.contextmanager
def locked(
    target: str | os.PathLike[str] | None,
    wait: bool = False,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Hold the lock TARGET.lock while the block runs, so that one run at a time works on TARGET.

    If another run holds it, this one waits for it (`wait`) or ends with an error. The lock is
    released when its process ends, even if it is killed; a lock file that stays does no harm. A
    pipe, a device, or no target at all needs no lock.

    pause: waits for some seconds between two tries; it may raise an error to give up.
    """
    if target is None or is_stream(Path(target)):
        yield
        return
    path = Path(f"{os.path.realpath(target)}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _take(path)
    if file is None and wait:
        say(f"{target}: another run is at work here; this one waits for its end")
    while file is None:
        if not wait:
            raise InputError(
                f"{target}: another run is at work here{_holder(path)}; wait for its end, or "
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
    """Lock a file until this process ends; return the note of the process that holds it, if any.

    Unlike `locked`, this takes a record lock. The processes that this one starts do not inherit
    it, so it ends with this process even if data loaders live on. The file stays.
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
    told = False
    with contextlib.suppress(NoLocks):
        while path.exists() and (holder := hold_until_the_end(path, this_process())) is not None:
            if not told:
                say(f"{path.parent}: {holder} still trains here; this run waits for its end")
            told = True
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
            with contextlib.suppress(OSError):  # a full disk has no room for the note
                os.ftruncate(file, 0)
                os.write(file, this_process().encode())
            return file
        os.close(file)  # the process that held the lock has just removed the file


def this_process() -> str:
    """Return what tells users which process holds a lock."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _holder(path: Path) -> str:
    """Return which process holds a lock, in brackets, or nothing if the file does not tell."""
    with contextlib.suppress(OSError, ValueError):
        if note := path.read_text(encoding="utf-8"):
            return f" ({note})"
    return ""


def lock_if_possible(file: int) -> bool:
    """Lock an open file and return True, or False if another process holds the lock.

    Where the file system has no locks, the answer is True.
    """
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
    """Return whether the open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False
