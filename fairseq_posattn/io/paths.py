"""Paths that a program refuses at its start, because it would fail with them later."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError


def is_stream(path: Path) -> bool:
    """Whether the path is a pipe, a socket or a device, such as /dev/stdout."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def refuse_unwritable(target: Path) -> None:
    """Refuse at the start what could not be replaced at the end, or what `open` would refuse."""
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file to write")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))


def refuse_file(folder: Path) -> None:
    """Refuse what is there and is no folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is no folder; name a folder to make")


def refuse_stream(path: str | Path) -> None:
    """Refuse a pipe before a file that will be read again is read for the first time."""
    if is_stream(Path(path)):
        raise InputError(
            f"{path}: is a pipe or a device, and this program reads its file several times; "
            "write it to a file first"
        )


def refuse_twice(paths: Sequence[str | Path]) -> None:
    """Refuse one file for two outputs."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen and not is_stream(Path(path)):
            raise InputError(f"{path}: named for two outputs; name a file for each")
        seen.add(real)


def refuse_redirected(path: str | Path) -> None:
    """Refuse /dev/stdout and its kin where the shell has redirected them to a file: a file that is
    written whole would take that file's place, and what others wrote into it would be lost."""
    of_shell = str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    if of_shell and not is_stream(Path(path)):
        real = os.path.realpath(path)
        raise InputError(f"{path}: is redirected to {real}; name that file, or write to a pipe")
