"""Refuse, at the start of a program, paths that it would fail with later.

fairseq splits lists of paths in one argument at a character that paths may hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from fairseq_posattn.errors import InputError


def is_stream(path: Path) -> bool:
    """Return whether the path is a pipe, a socket or a device, such as /dev/stdout."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def refuse_unwritable(target: Path) -> None:
    """Refuse a path that could not be replaced at the end, or that `open` would refuse."""
    if target.is_dir():
        raise InputError(f"{target}: this is a folder; name a file to write")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))


def refuse_file(folder: Path) -> None:
    """Refuse a path that exists and is no folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is no folder; name a folder to make")


def refuse_stream(path: str | Path) -> None:
    """Refuse a pipe where a file is expected, because the file will be read several times."""
    if is_stream(Path(path)):
        raise InputError(
            f"{path}: this is a pipe or a device, but the program reads this input several times; "
            "write it to a file first"
        )


def refuse_twice(paths: Sequence[str | Path]) -> None:
    """Refuse paths of outputs of which two are the same file."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen and not is_stream(Path(path)):
            raise InputError(f"{path}: the file is named for two outputs; name a file for each")
        seen.add(real)


def refuse_redirected(path: str | Path) -> None:
    """Refuse /dev/stdout and the like where the shell has redirected them to a file.

    A file that is written whole would replace that file, and what others wrote into it would be
    lost.
    """
    of_shell = str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    if of_shell and not is_stream(Path(path)):
        real = os.path.realpath(path)
        raise InputError(f"{path}: this is redirected to {real}; name that file, or use a pipe")


def refuse_split_path(
    paths: str, separator: str, exists: Callable[[str], bool] = os.path.exists
) -> None:
    """Refuse a path that fairseq would take for several, because the separator is part of it."""
    parts = paths.split(separator)
    if all(map(exists, parts)):
        return
    for start, end in combinations(range(len(parts) + 1), 2):
        path = separator.join(parts[start:end])
        if end - start > 1 and exists(path):
            raise InputError(
                f"{path}: fairseq would split this path at '{separator}'; rename the folder or "
                "file, or reach it by a link"
            )


def refuse_separator(option: str, path: str | os.PathLike[str], separator: str) -> None:
    """Refuse to make a folder whose path fairseq would split when it is given to it later."""
    if separator in str(path):
        raise InputError(
            f"{option} {path}: fairseq splits such paths at '{separator}'; name a folder without it"
        )
